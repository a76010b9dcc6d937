"""The composition root: from a path and wishes to a model that answers. Only here are
implementations chosen."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, cast, overload

import numpy as np
from numpy.typing import NDArray

from colibri.config import EngineConfig
from colibri.container.reader import open_container
from colibri.engine.engine import Engine, check_ids
from colibri.engine.request import Finished, PrefillProgress, Request, Token
from colibri.engine.thread import EngineThread
from colibri.errors import ConfigError, TokenizerError
from colibri.experts.streamed import StreamedExperts
from colibri.hardware import probe
from colibri.kernels import cpu
from colibri.models.loader import TrunkLoader
from colibri.models.registry import family_for
from colibri.planner.plan import PAIR_BUFFER_BYTES, Machine, bits_text, make_plan
from colibri.sampling import SamplingParams
from colibri.text.assemble import TextAssembler
from colibri.text.eos import eos_ids
from colibri.text.template import ChatTemplate
from colibri.text.tokenizer import Tokenizer

F32 = NDArray[np.float32]
Prompt = str | Sequence[int]
Progress = Callable[[PrefillProgress], None]
Message = Mapping[str, Any]


@dataclass(frozen=True)
class TokenLogprob:
    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]  # (id, logprob), most likely first


@dataclass(frozen=True)
class Chunk:
    """A piece of an answer; the last one carries the reason: "stop", "length" or "cancelled"."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True)
class Completion:
    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    prompt_tokens: int
    logprobs: tuple[TokenLogprob, ...] | None
    ttft_seconds: float
    seconds: float


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
    rss_bytes: int
    peak_rss_bytes: int


def embedded_model() -> Path:
    """The small trained model that ships with the package."""
    return Path(__file__).parent / "demo"


class LLM:
    """A model, ready to answer.

    `model` is a converted model's directory, a Hugging Face checkpoint as downloaded, or None for
    the embedded model. Other arguments are the fields of EngineConfig. May be called from several
    threads: calls queue on the engine's own.
    """

    def __init__(self, model: str | Path | None = None, **settings: Any) -> None:
        known = {f.name for f in fields(EngineConfig)} - {"model"}
        for name in settings.keys() - known:
            raise ConfigError(
                f"LLM() has no setting {name!r}; known are {', '.join(sorted(known))}"
            )
        self._open(EngineConfig(model=None if model is None else str(model), **settings))

    @classmethod
    def from_config(cls, config: EngineConfig) -> Self:
        llm = cls.__new__(cls)
        llm._open(config)
        return llm

    def _open(self, config: EngineConfig) -> None:
        path = embedded_model() if config.model is None else Path(config.model)
        container = open_container(path, lambda c: family_for(c).weights_of(c))
        family = family_for(container.config)
        model_config = family.parse(container.config)
        cpu.configure(config.threads, None if config.cpu == "auto" else config.cpu)
        self.tokenizer = Tokenizer.load(path) if (path / "tokenizer.json").exists() else None
        self.chat_template = ChatTemplate.load(path)
        self._eos = eos_ids(container.config, container.generation_config, self.tokenizer)
        self.default_params = SamplingParams.from_generation_config(container.generation_config)
        self.plan = make_plan(
            config,
            container,
            family.sizes(model_config),
            model_config.max_position_embeddings,
            model_config.vocab_size,
            _machine(),
        )
        planes = 2 if config.activations == "int8x2" else 1
        layers = {n: layer for n, layer in container.expert_layers().items() if not layer.draft}
        self._experts = StreamedExperts(
            layers,
            slots_per_layer=dict(self.plan.slots),
            planes=planes,
            readers=config.readers,
            pair_buffer_bytes=PAIR_BUFFER_BYTES,
            cancelled=lambda: self._engine.step_cancelled(),
        )
        loader = TrunkLoader(container, self.plan.trunk_bits, config.embed_bits, planes)
        model = family.build(model_config, loader, self._experts)
        self._engine = Engine(
            model,
            context=self.plan.context,
            prefill_chunk=self.plan.prefill_chunk,
            bytes_read=lambda: self._experts.stats().bytes_read,
        )
        self._thread = EngineThread(self._engine)
        scheme = next(iter(layers.values())).layout.scheme if layers else "none"
        self.load_line = (
            f"{path.name} ({family.name}): experts {scheme}, "
            f"trunk at {bits_text(self.plan.trunk_bits)}, embedding {config.embed_bits} bits, "
            f"activations {config.activations}, "
            f"{cpu.active_path()} on {cpu.num_threads()} threads"
        )

    def close(self) -> None:
        """End what runs and give the memory back."""
        self._thread.close()
        self._experts.close()

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
        if _single(prompt):
            return self._collect(self._submit(cast(Prompt, prompt), params))
        requests = [self._submit(cast(Prompt, p), params) for p in prompt]
        try:
            return [self._collect(request) for request in requests]
        finally:
            for request in requests:
                request.cancel()

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        on_progress: Progress | None = None,
    ) -> Iterator[Chunk]:
        """The answer as it is made. Closing the iterator cancels the request."""
        return self._chunks(self._submit(prompt, params), on_progress)

    def chat(
        self, messages: Sequence[Message], params: SamplingParams | None = None, **template: Any
    ) -> Completion:
        """Answer a conversation: messages with "role" and "content", rendered by the model's own
        template."""
        return self._collect(self._submit(self.render(messages, **template), params))

    def stream_chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        *,
        on_progress: Progress | None = None,
        **template: Any,
    ) -> Iterator[Chunk]:
        return self._chunks(self._submit(self.render(messages, **template), params), on_progress)

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
        state."""
        ids = [int(i) for i in token_ids]
        return self._thread.call(lambda: self._engine.forward(ids))

    def stats(self) -> Stats:
        engine, experts = self._engine.stats, self._experts.stats()
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
            rss_bytes=probe.rss_bytes(),
            peak_rss_bytes=probe.peak_rss_bytes(),
        )

    def _need_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise TokenizerError(
                "this model has no tokenizer.json: give token ids instead of text, or add the file"
            )
        return self.tokenizer

    def _submit(self, prompt: Prompt, params: SamplingParams | None) -> Request:
        if isinstance(prompt, str):
            ids = self._need_tokenizer().encode(prompt, add_special_tokens=True)
        else:
            ids = [int(i) for i in prompt]
        params = params or self.default_params
        if params.stop:
            self._need_tokenizer()
        check_ids(ids, self._engine.model.vocab_size, self.plan.context - 1)
        request = Request(ids, params, self._eos)
        self._thread.submit(request)
        return request

    def _collect(self, request: Request) -> Completion:
        started = time.perf_counter()
        chunks, first = [], 0.0
        for chunk in self._chunks(request, None):
            first = first or time.perf_counter() - started
            chunks.append(chunk)
        logprobs = [entry for c in chunks for entry in c.logprobs or ()]
        return Completion(
            text="".join(c.text for c in chunks),
            token_ids=tuple(i for c in chunks for i in c.token_ids),
            finish_reason=chunks[-1].finish_reason or "stop",
            prompt_tokens=len(request.prompt_ids),
            logprobs=tuple(logprobs) if request.params.logprobs is not None else None,
            ttft_seconds=first,
            seconds=time.perf_counter() - started,
        )

    def _chunks(self, request: Request, on_progress: Progress | None) -> Iterator[Chunk]:
        text = TextAssembler(self.tokenizer, request.params.stop) if self.tokenizer else None
        try:
            while True:
                event = request.events.get()
                if isinstance(event, PrefillProgress):
                    if on_progress is not None:
                        on_progress(event)
                elif isinstance(event, Token):
                    shown = self._shown(event, request, text)
                    yield shown
                    if shown.finish_reason:
                        return
                elif isinstance(event, Finished):
                    yield Chunk(text.finish() if text else "", (), event.reason)
                    return
                else:
                    raise event.error
        finally:
            request.cancel()

    def _shown(self, token: Token, request: Request, text: TextAssembler | None) -> Chunk:
        logprobs = None
        if request.params.logprobs is not None:
            logprobs = (TokenLogprob(token.id, token.logprob, token.top),)
        is_eos = token.id in request.eos_ids and not request.params.ignore_eos
        piece = text.push(token.id) if text and not is_eos else ""
        reason = "stop" if text and text.stopped else None
        return Chunk(piece, (token.id,), reason, logprobs)


def _single(prompt: Prompt | list[str] | list[list[int]]) -> bool:
    return (
        isinstance(prompt, str)
        or (len(prompt) > 0 and isinstance(prompt[0], int | np.integer))
        or not len(prompt)
    )


def _machine() -> Machine:
    facts = probe.facts()
    total = min(facts.memory_bytes, facts.cgroup_memory_bytes or facts.memory_bytes)
    return Machine(total, facts.usable_bytes, probe.rss_bytes())
