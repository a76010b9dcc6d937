"""The composition root: from a path and wishes to a model that answers. Only here are
implementations chosen."""

import logging
import operator
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast, overload

import numpy as np
from numpy.typing import NDArray

from colibri.answer import Chunk, Completion, Progress, chunks, complete
from colibri.config import EngineConfig, cpu_of
from colibri.container.reader import Container, open_container
from colibri.engine.engine import Engine, check_ids
from colibri.engine.request import Request, Watch
from colibri.engine.thread import EngineThread
from colibri.errors import ColibriError, ConfigError, TokenizerError
from colibri.experts.streamed import StreamedExperts
from colibri.hardware import probe
from colibri.kernels import cpu
from colibri.layers.clock import NO_CLOCK, Clock
from colibri.layers.lookahead import with_lookahead
from colibri.models.loader import TrunkLoader
from colibri.models.registry import family_for
from colibri.planner.plan import LOGIT_ROWS, PAIR_BUFFER_BYTES, Machine, bits_text, make_plan
from colibri.routing.base import RouterFactory, own_router
from colibri.sampling import SamplingParams
from colibri.text.assemble import TextAssembler
from colibri.text.eos import eos_ids
from colibri.text.template import ChatTemplate
from colibri.text.tokenizer import Tokenizer

F32 = NDArray[np.float32]
Prompt = str | Sequence[int]
Message = Mapping[str, Any]

logger = logging.getLogger("colibri")


@dataclass(frozen=True)
class Stats:
    """Counters since the model was loaded."""

    prefill_tokens: int
    prefill_seconds: float
    decode_tokens: int
    decode_seconds: float
    hits: int
    misses: int
    bytes_read: int
    read_seconds: float
    wait_seconds: float
    prefetch_reads: int
    prefetch_useful: int
    prefetch_wasted_bytes: int
    prefetch_expired: int
    lookahead_missing: int
    lookahead_right: int
    rss_bytes: int
    peak_rss_bytes: int


def embedded_model() -> Path:
    """The small trained model that ships with the package."""
    return Path(__file__).parent / "demo"


class LLM:
    """A model, ready to answer.

    `model` is a converted model's directory, a Hugging Face checkpoint as downloaded, or None for
    the embedded model. Other arguments are the fields of EngineConfig; of the environment only
    COLI_CPU is heeded. May be called from several threads: calls queue on the engine's own.
    """

    def __init__(self, model: str | Path | None = None, **settings: Any) -> None:
        known = {f.name for f in fields(EngineConfig)} - {"model"}
        for name in settings.keys() - known:
            raise ConfigError(
                f"LLM() has no setting {name!r}; known are {', '.join(sorted(known))}"
            )
        if "cpu" not in settings and (path := cpu_of(os.environ)) is not None:
            settings["cpu"] = path
        self._open(EngineConfig(model=None if model is None else str(model), **settings))

    @classmethod
    def from_config(
        cls,
        config: EngineConfig,
        *,
        make_router: RouterFactory = own_router,
        clock: Clock = NO_CLOCK,
    ) -> Self:
        """`make_router` and `clock` are for measuring: other routers than the family's, and
        someone who listens where the time goes."""
        llm = cls.__new__(cls)
        llm._open(config, make_router, clock)
        return llm

    def _open(
        self,
        config: EngineConfig,
        make_router: RouterFactory = own_router,
        clock: Clock = NO_CLOCK,
    ) -> None:
        self._path = embedded_model() if config.model is None else Path(config.model)
        container = open_container(
            self._path, lambda c: family_for(c).weights_of(c), direct=config.direct != "off"
        )
        self.tokenizer = _tokenizer(self._path)
        self._eos = eos_ids(container.config, container.generation_config, self.tokenizer)
        self.default_params = SamplingParams.from_generation_config(container.generation_config)
        _configure_cpu(config)
        self._start(config, container, make_router, clock)
        self._warn(config)

    def _warn(self, config: EngineConfig) -> None:
        """Of a precision that is not what one may think."""
        for part in ("trunk", "embed"):
            asked, got = getattr(config, f"{part}_bits"), getattr(self.plan, f"{part}_bits")
            # 8 is the embedding's default: a model stored at 4 is no surprise to who did not ask.
            if asked not in ("auto", got) and (part, asked) != ("embed", 8):
                logger.warning(
                    "--%s-bits %s: it is stored at %s bits, and stays so", part, asked, got
                )
        if config.activations == "int8":
            logger.warning("activations int8: one plane instead of two, so logits are less exact")

    def _start(
        self,
        config: EngineConfig,
        container: Container,
        make_router: RouterFactory,
        clock: Clock,
    ) -> None:
        family = family_for(container.config)
        model_config = family.parse(container.config)
        positions, vocab = model_config.max_position_embeddings, model_config.vocab_size
        sizes = family.sizes(model_config)
        self.plan = make_plan(config, container, sizes, positions, vocab, _machine())
        planes = 2 if config.activations == "int8x2" else 1
        layers = {n: layer for n, layer in container.expert_layers().items() if not layer.draft}
        watch = Watch()
        experts = self._experts = StreamedExperts(
            layers,
            slots_per_layer=dict(self.plan.slots),
            planes=planes,
            readers=config.readers,
            pair_buffer_bytes=PAIR_BUFFER_BYTES,
            direct=config.direct,
            cancelled=watch.cancelled,
        )
        try:
            bits = self.plan.trunk_bits, self.plan.embed_bits
            loader = TrunkLoader(container, *bits, planes, make_router)
            model = family.build(model_config, loader, experts)
            model = with_lookahead(model, experts, config.lookahead)
        except BaseException:
            experts.close()
            raise
        engine = Engine(
            model,
            context=self.plan.context,
            prefill_chunk=self.plan.prefill_chunk,
            logit_rows=LOGIT_ROWS,
            watch=watch,
            bytes_read=lambda: experts.stats().bytes_read,
            clock=clock,
        )
        self._counters = engine.stats
        self._vocab_size = vocab
        # Nothing else holds the engine, nor does it hold this object: closed or forgotten, the
        # model's memory goes back at once.
        self._thread = EngineThread(engine, at_end=experts.close)
        weakref.finalize(self, self._thread.close)
        scheme = next(iter(layers.values())).layout.scheme if layers else "none"
        trunk, embedding = bits_text(self.plan.trunk_bits), bits_text(self.plan.embed_bits)
        self.load_line = (
            f"{Path(os.path.abspath(self._path)).name} ({family.name}): experts {scheme}, "
            f"trunk at {trunk}, embedding at {embedding}, "
            f"activations {config.activations}, "
            f"{cpu.active_path()} on {cpu.num_threads()} threads"
        )

    @property
    def experts(self) -> StreamedExperts:
        """The executor with its cache and counters, for measuring: between answers only."""
        return self._experts

    @cached_property
    def chat_template(self) -> ChatTemplate | None:
        """The model's own; a damaged one is an error here, not for whoever needs none."""
        return ChatTemplate.load(self._path)

    def close(self) -> None:
        """End what runs and give the memory back. A model that nobody holds any more, or that is
        open when Python ends, closes itself."""
        self._thread.close()

    @property
    def _engine(self) -> Engine:
        return self._thread.engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def generate(
        self, prompt: str | Sequence[int], params: SamplingParams | None = None
    ) -> Completion: ...
    @overload
    def generate(
        self, prompt: list[str] | list[list[int]], params: SamplingParams | None = None
    ) -> list[Completion]: ...
    def generate(
        self, prompt: Prompt | list[str] | list[list[int]], params: SamplingParams | None = None
    ) -> Completion | list[Completion]:
        """Answer one prompt (text or token ids) or several, which then decode together."""
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
            return self._complete_all([self._request(p, params) for p in prompt])
        return self._complete_all([self._request(cast(Prompt, prompt), params)])[0]

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        on_progress: Progress | None = None,
    ) -> Iterator[Chunk]:
        """The answer as it is made. Closing the iterator cancels the request."""
        return self._stream(self._request(prompt, params), on_progress, continues=True)

    def chat(
        self, messages: Sequence[Message], params: SamplingParams | None = None, **template: Any
    ) -> Completion:
        """Answer a conversation: messages with "role" and "content", rendered by the model's own
        template."""
        request = self._request(self.render(messages, **template), params)
        return self._complete_all([request], continues=False)[0]

    def stream_chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        *,
        on_progress: Progress | None = None,
        **template: Any,
    ) -> Iterator[Chunk]:
        request = self._request(self.render(messages, **template), params)
        return self._stream(request, on_progress, continues=False)

    def render(self, messages: Sequence[Message], **template: Any) -> list[int]:
        """The token ids of a conversation, up to where the answer begins."""
        if self.chat_template is None:
            raise TokenizerError(
                "this model has no chat template (chat_template.jinja or tokenizer_config.json): "
                "use `coli run`, or generate() with a prompt of your own"
            )
        text = self.chat_template.render(messages, **template)
        return self._need_tokenizer().encode(text, add_special_tokens=False)

    def forward(self, token_ids: Sequence[int]) -> F32:
        """Logits of every position: float32 [tokens, vocab]. Needs no tokenizer and leaves no
        state. The array is the caller's own: the memory budget does not hold it."""
        ids, engine = whole_numbers(token_ids), self._engine
        return self._thread.call(lambda: engine.forward(ids), len(ids))

    def stats(self) -> Stats:
        engine, experts, rss = self._counters, self._experts.stats(), probe.rss_bytes()
        return Stats(
            prefill_tokens=engine.prefill_tokens,
            prefill_seconds=engine.prefill_seconds,
            decode_tokens=engine.decode_tokens,
            decode_seconds=engine.decode_seconds,
            hits=experts.hits,
            misses=experts.misses,
            bytes_read=experts.bytes_read,
            read_seconds=experts.read_seconds,
            wait_seconds=experts.wait_seconds,
            prefetch_reads=experts.prefetch_reads,
            prefetch_useful=experts.prefetch_useful,
            prefetch_wasted_bytes=experts.prefetch_wasted_bytes,
            prefetch_expired=experts.prefetch_expired,
            lookahead_missing=experts.guesses.missing,
            lookahead_right=experts.guesses.right,
            rss_bytes=rss,
            peak_rss_bytes=max(rss, probe.peak_rss_bytes()),
        )

    def _need_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise TokenizerError(
                "this model has no tokenizer.json: give token ids instead of text, or add the file"
            )
        return self.tokenizer

    def _request(self, prompt: Prompt, params: SamplingParams | None) -> Request:
        if isinstance(prompt, str):
            ids = self._need_tokenizer().encode(prompt, add_special_tokens=True)
        else:
            ids = whole_numbers(prompt)
        params = params or self.default_params
        if params.stop:
            self._need_tokenizer()
        check_ids(ids, self._vocab_size, self.plan.context - 1)
        return Request(ids, params, self._eos)

    def _stream(
        self, request: Request, on_progress: Progress | None, *, continues: bool
    ) -> Iterator[Chunk]:
        # A generator: nothing is computed for an iterator that nobody starts.
        self._thread.submit(request)
        yield from chunks(request, self._assembler(request, continues), on_progress)

    def _complete_all(self, requests: list[Request], *, continues: bool = True) -> list[Completion]:
        try:
            for request in requests:
                self._thread.submit(request)
            return [complete(r, self._assembler(r, continues)) for r in requests]
        finally:
            for request in requests:
                request.cancel()

    def _assembler(self, request: Request, continues: bool) -> TextAssembler | None:
        if self.tokenizer is None:
            return None
        return TextAssembler(self.tokenizer, request.params.stop, continues)


def whole_numbers(token_ids: Sequence[int]) -> list[int]:
    """Token ids as Python's own integers."""
    try:
        return [operator.index(i) for i in token_ids]
    except TypeError:
        raise ColibriError("a prompt is text, or a sequence of whole numbers (token ids)") from None


def _tokenizer(path: Path) -> Tokenizer | None:
    """None where the model has none: token ids still work."""
    return Tokenizer.load(path) if "tokenizer.json" in os.listdir(path) else None


def _configure_cpu(config: EngineConfig) -> None:
    here = cpu.supported_paths()
    if config.cpu != "auto" and config.cpu not in here:
        raise ConfigError(f"cpu: {config.cpu} is not in this processor; it has {', '.join(here)}")
    cpu.configure(config.threads, None if config.cpu == "auto" else config.cpu)


def _machine() -> Machine:
    facts = probe.facts()
    total = min(facts.memory_bytes, facts.cgroup_memory_bytes or facts.memory_bytes)
    return Machine(total, facts.usable_bytes, probe.rss_bytes())
