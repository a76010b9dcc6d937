"""The public class: a model that answers text with text."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from colibri.answer import Chunk, Completion, Progress, chunks, complete
from colibri.config import EngineConfig, EngineSettings, cpu_of, usage_of
from colibri.container.reader import Container
from colibri.engine.engine import Engine, check_ids, whole_numbers
from colibri.engine.request import Request
from colibri.errors import CapacityError, ConfigError, TokenizerError
from colibri.experts.streamed import StreamedExperts
from colibri.grammar import Matcher
from colibri.grammar.answers import FREE, AnswerForm
from colibri.grammar.grammars import Grammars
from colibri.hardware.numa import spread
from colibri.layers.clock import NO_CLOCK, Clock
from colibri.planner.forecast import Forecast, Rates
from colibri.planner.plan import Plan
from colibri.routing.base import RouterFactory, own_router
from colibri.runtime import Runtime, Stats, open_model
from colibri.sampling import SamplingParams
from colibri.text.assemble import TextAssembler
from colibri.text.eos import eos_ids
from colibri.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # the rest of it is imported on use: jinja2 takes its time
    from colibri.text.chat import ChatFormat, ChatOptions, Message

F32 = NDArray[np.float32]
Prompt = str | Sequence[int]
Asked = tuple[Request, TextAssembler | None]

logger = logging.getLogger("colibri")


def embedded_model() -> Path:
    """The small trained model that ships with the package."""
    return Path(__file__).parent / "demo"


class LLM:
    """A model, ready to answer.

    `model` is a converted model's directory, a Hugging Face checkpoint as downloaded, or None for
    the embedded model. Other arguments are those of EngineSettings; of the environment only
    COLI_CPU and COLI_USAGE are heeded. May be called from several threads: calls queue on the
    engine's own.
    """

    def __init__(self, model: str | Path | None = None, **settings: Unpack[EngineSettings]) -> None:
        known = {f.name for f in fields(EngineConfig)} - {"model", "profile"}
        for name in settings.keys() - known:
            raise ConfigError(
                f"LLM() has no setting {name!r}; known are {', '.join(sorted(known))}"
            )
        if "cpu" not in settings and (path := cpu_of(os.environ)) is not None:
            settings["cpu"] = path
        if "usage" not in settings and (usage := usage_of(os.environ)) is not None:
            settings["usage"] = usage
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
        container = open_model(self._path, config)
        self.tokenizer = _tokenizer(self._path)
        self._noted: set[str] = set()  # said once each
        self._eos = eos_ids(container.config, container.generation_config, self.tokenizer)
        self.default_params = SamplingParams.from_generation_config(container.generation_config)
        with spread(config.numa) as nodes:
            self._runtime = Runtime(container, config, make_router, clock)
        # The engine does not hold this object: closed or forgotten, its memory goes back at once.
        weakref.finalize(self, self._runtime.thread.close)
        self.plan: Plan = self._runtime.plan
        self.load_line = self._runtime.load_line
        if nodes:
            self.load_line += f", memory over {len(nodes)} NUMA nodes"

    @property
    def experts(self) -> StreamedExperts:
        """The executor with its cache and counters, for measuring: between answers only."""
        return self._runtime.experts

    def restart_trace(self) -> None:
        """Forgets what --trace recorded so far, for measuring: between answers only."""
        if self._runtime.tracer is not None:
            self._runtime.tracer.restart()

    @property
    def container(self) -> Container:
        """The model on disk."""
        return self._runtime.container

    @property
    def planes(self) -> int:
        """Int8 planes of the activations."""
        return self._runtime.planes

    @cached_property
    def chat_format(self) -> ChatFormat | None:
        """How to converse with the model; a damaged template is an error here, not for whoever
        needs none."""
        from colibri.text.chat import ChatFormat

        return ChatFormat.load(self._path, str(self.container.config.get("model_type")))

    def close(self) -> None:
        """End what runs and give the memory back. A model that nobody holds any more, or that is
        open when Python ends, closes itself."""
        self._runtime.thread.close()

    @property
    def _engine(self) -> Engine:
        return self._runtime.thread.engine

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
            return self._complete_all([self._raw(p, params) for p in prompt])
        return self._complete_all([self._raw(cast(Prompt, prompt), params)])[0]

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        on_progress: Progress | None = None,
    ) -> Iterator[Chunk]:
        """The answer as it is made. Closing the iterator cancels the request."""
        return self._stream(self._raw(prompt, params), on_progress)

    def chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        **options: Unpack[ChatOptions],
    ) -> Completion:
        """Answer a conversation: messages with "role" and "content", and in answers
        "reasoning_content" and "tool_calls"; rendered by the model's own template."""
        return self._complete_all([self._conversation(messages, params, options)])[0]

    def stream_chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        *,
        on_progress: Progress | None = None,
        **options: Unpack[ChatOptions],
    ) -> Iterator[Chunk]:
        return self._stream(self._conversation(messages, params, options), on_progress)

    def render(self, messages: Sequence[Message], **options: Unpack[ChatOptions]) -> list[int]:
        """The token ids of a conversation, up to where the answer begins."""
        from colibri.text.chat import ChatRequest

        text = self._need_chat().render(messages, ChatRequest.of(options))
        return self._encode(text, add_special_tokens=False)

    def forward(self, token_ids: Sequence[int]) -> F32:
        """Logits of every position: float32 [tokens, vocab]. Needs no tokenizer and leaves no
        state. The array is the caller's own: the memory budget does not hold it."""
        ids, engine = whole_numbers(token_ids), self._engine
        return self._runtime.thread.call(lambda: engine.forward(ids), len(ids))

    def stats(self) -> Stats:
        """Counters since the model was loaded."""
        return self._runtime.stats()

    def forecast(self, rates: Rates) -> Forecast:
        """What the plan is worth on a machine of these rates."""
        return self._runtime.forecast(rates)

    def _need_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise TokenizerError(
                "this model has no tokenizer.json: give token ids instead of text, or add the file"
            )
        return self.tokenizer

    def _need_chat(self) -> ChatFormat:
        if self.chat_format is None:
            raise TokenizerError(
                "this model has no chat template (chat_template.jinja or tokenizer_config.json): "
                "use `coli run`, or generate() with a prompt of your own"
            )
        return self.chat_format

    def _encode(self, text: str, add_special_tokens: bool) -> list[int]:
        tokenizer, room = self._need_tokenizer(), self.plan.context - 1
        if tokenizer.exceeds(text, room):
            raise CapacityError(
                f"the prompt, of {len(text)} characters, has far more than {room} tokens, for "
                "which the context leaves room: shorten it, or raise --context"
            )
        return tokenizer.encode(text, add_special_tokens)

    def _request(
        self, prompt: Prompt, params: SamplingParams | None, form: AnswerForm = FREE
    ) -> Request:
        if isinstance(prompt, str):
            ids = self._encode(prompt, add_special_tokens=True)
        else:
            ids = whole_numbers(prompt)
        params = self.default_params if params is None else params
        if not isinstance(params, SamplingParams):
            raise ConfigError(f"params: {type(params).__name__} is no SamplingParams")
        if params.stop:
            self._need_tokenizer()
        check_ids(ids, self._runtime.vocab_size, self.plan.context - 1)
        return Request(ids, params, self._eos, matcher=self._matcher(params, form))

    def _matcher(self, params: SamplingParams, form: AnswerForm) -> Matcher | None:
        """Compiled here, on the caller's thread."""
        form = replace(form, structure=params.structure)
        if form.structure is None and form.calls is None:
            return None
        return self._grammars.matcher(form, ignore_eos=params.ignore_eos)

    @cached_property
    def _grammars(self) -> Grammars:
        return Grammars(self._need_tokenizer(), self._eos)

    def _raw(self, prompt: Prompt, params: SamplingParams | None) -> Asked:
        request = self._request(prompt, params)
        if self.tokenizer is None:
            return request, None
        return request, TextAssembler(self.tokenizer, request.params.stop, continues=True)

    def _conversation(
        self, messages: Sequence[Message], params: SamplingParams | None, options: ChatOptions
    ) -> Asked:
        from colibri.text.chat import ChatRequest

        chat, asked = self._need_chat(), ChatRequest.of(options)
        prompt = chat.render(messages, asked)
        tokenizer, rules = self._need_tokenizer(), chat.call_rules(self._need_tokenizer(), asked)
        form = AnswerForm(calls=rules.rules, thinking=chat.thinking(prompt, tokenizer))
        request = self._request(self._encode(prompt, add_special_tokens=False), params, form)
        for note in (*chat.notes(asked), *rules.notes):
            if note not in self._noted:
                logger.warning(note)
                self._noted.add(note)
        parser = chat.parser(prompt, asked)
        shown = chat.shown(tokenizer, asked)
        return request, TextAssembler(tokenizer, request.params.stop, False, parser, shown)

    def _stream(self, asked: Asked, on_progress: Progress | None) -> Iterator[Chunk]:
        # A generator: nothing is computed for an iterator that nobody starts.
        request, text = asked
        self._runtime.thread.submit(request)
        yield from chunks(request, text, on_progress)

    def _complete_all(self, asked: list[Asked]) -> list[Completion]:
        try:
            for request, _ in asked:
                self._runtime.thread.submit(request)
            return [complete(request, text) for request, text in asked]
        finally:
            for request, _ in asked:
                request.cancel()


def _tokenizer(path: Path) -> Tokenizer | None:
    """None where the model has none: token ids still work."""
    return Tokenizer.load(path) if "tokenizer.json" in os.listdir(path) else None
