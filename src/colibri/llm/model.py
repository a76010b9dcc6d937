"""The public class."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack, cast, overload

import numpy as np
import xxhash
from numpy.typing import NDArray

from colibri.answer import Answer, Chunk, Completion, Progress
from colibri.config import EngineConfig, EngineSettings, cpu_of, usage_of
from colibri.container.reader import Container
from colibri.engine.engine import Engine
from colibri.engine.ids import whole_numbers
from colibri.engine.request import EventSink, Request
from colibri.engine.status import EngineStatus
from colibri.errors import ConfigError
from colibri.experts.base import Ids
from colibri.experts.streamed import StreamedExperts
from colibri.experts.usage.log import UsageLog
from colibri.hardware.numa import spread
from colibri.layers.clock import NO_CLOCK, Clock
from colibri.llm.asking import Asker, Prompt
from colibri.llm.files import model_directory, tokenizer_of
from colibri.llm.leadin import LeadIn
from colibri.llm.loading import OnLoad, telling
from colibri.llm.scores import Normalize, Scores, Scoring, check_options
from colibri.planner.budget import this_machine
from colibri.planner.forecast import Forecast, Rates
from colibri.planner.ofmodel import plan_of
from colibri.planner.plan import Plan
from colibri.routing.base import RouterFactory, own_router
from colibri.runtime import Runtime, Stats, open_model
from colibri.sampling import SamplingParams
from colibri.text.eos import eos_ids, read_eos
from colibri.text.tokenizer import Tokenizer
from colibri.text.tokenizermemory import NO_TOKENIZER, memory_of

if TYPE_CHECKING:  # the rest of it is imported on use: jinja2 takes its time
    from colibri.text.chat import ChatFormat, ChatOptions
    from colibri.text.history import Message

F32 = NDArray[np.float32]


class LLM:
    """A model that is loaded and ready to answer.

    `model` is the directory of a converted model or of a Hugging Face checkpoint as downloaded, or
    the name (ORG/NAME) of one that is in the cache of Hugging Face's hub; None is the embedded
    model. The settings are those of the command line, under the names that
    they have in the configuration file. The file itself, profiles of `coli tune` and the
    environment are not read, but for COLI_CPU and COLI_USAGE.

    It may be called from several threads: requests queue for the one thread that owns the model.
    Use it as a context manager, or call close(), to give its memory back.

    Raises ConfigError for an unknown setting or a bad value, UnsupportedModelError, ContainerError
    or TokenizerError for the model's files, and CapacityError if it does not fit into `ram`; the
    message then names the least budget that works.
    """

    plan: Plan
    """What the memory is divided into and how long the context is, as `coli plan` shows it."""
    default_params: SamplingParams
    """How the model samples if a call has no parameters: its generation_config.json."""
    tokenizer: Tokenizer | None
    """The model's tokenizer; None if it has none, and then only token ids can be given."""

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
        text: bool = True,
        make_router: RouterFactory = own_router,
        clock: Clock = NO_CLOCK,
        on_load: OnLoad | None = None,
    ) -> Self:
        """The same from an EngineConfig. Without `text` no tokenizer is loaded, and only token ids
        can be given. `make_router` and `clock` are for measuring: they put other routers in the
        place of the family's, and tell where the time goes. `on_load` is called by several threads,
        one at a time, with the bytes of weights that are loaded and those there are."""
        llm = cls.__new__(cls)
        llm._open(config, text, make_router, clock, on_load)
        return llm

    def _open(
        self,
        config: EngineConfig,
        text: bool = True,
        make_router: RouterFactory = own_router,
        clock: Clock = NO_CLOCK,
        on_load: OnLoad | None = None,
    ) -> None:
        self._path = model_directory(config.model)
        container = open_model(self._path, config)
        memory = memory_of(self._path) if text else NO_TOKENIZER
        self.plan = plan_of(container, config, memory, this_machine())
        self.tokenizer = tokenizer_of(self._path) if text else None
        self.default_params = SamplingParams.from_generation_config(container.generation_config)
        with spread(config.numa) as nodes, telling(container, on_load):
            self._runtime = Runtime(container, config, self.plan, make_router, clock)
        # The engine does not hold this object: closed or forgotten, its memory goes back at once.
        weakref.finalize(self, self._runtime.thread.close)
        self._asker = Asker(
            self._path,
            str(container.config.get("model_type")),
            self.tokenizer,
            eos_ids(
                container.config,
                container.generation_config,
                self.tokenizer or read_eos(self._path),
            ),
            self.default_params,
            vocab_size=self._runtime.vocab_size,
            context=self.plan.context,
            marks=self._runtime.wants_marks,
        )
        self.load_line = self._runtime.load_line
        if nodes:
            self.load_line += f", memory over {len(nodes)} NUMA nodes"

    @property
    def fingerprint(self) -> str:
        """Of what decides its logits as far as it is told without reading weights: config, layout
        of the experts, precision, approximate routing; 16 hex digits."""
        runtime = self._runtime
        said = (self.usage.subject.fingerprint, runtime.precision, runtime.approximate)
        return xxhash.xxh3_64_hexdigest("\0".join(said).encode())

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
    def config(self) -> EngineConfig:
        """The wishes it was loaded with."""
        return self._runtime.config

    @property
    def usage(self) -> UsageLog:
        """Which experts were selected, in this run and those before; peek() is for any thread."""
        return self._runtime.usage

    @property
    def planes(self) -> int:
        """Int8 planes of the activations."""
        return self._runtime.planes

    @property
    def chat_format(self) -> ChatFormat | None:
        """How to converse with the model; a damaged template is an error here, not for whoever
        needs none."""
        return self._asker.chat_format

    def close(self) -> None:
        """Cancel what runs and give the memory back. A model that is no longer referenced, or
        still open when Python ends, closes itself."""
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
        """Go on with one prompt, or with several at once, as they are: without a chat template.

        A prompt is a text or a list of token ids. Several are decoded together, which is faster
        than one after the other and gives each the same answer as alone. Without `params` the
        model's default_params apply. Raises ConfigError, CapacityError if a prompt is longer than
        the context, TokenizerError, GrammarError, and whatever ended the request.
        """
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
            return self._complete_all([self._asker.raw(p, params) for p in prompt])
        return self._complete_all([self._asker.raw(cast(Prompt, prompt), params)])[0]

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        on_progress: Progress | None = None,
    ) -> Iterator[Chunk]:
        """Like generate() for one prompt, a piece at a time while the answer is made.

        Nothing happens before the first piece is asked for. Leaving the loop early, or closing the
        iterator, cancels the request. on_progress is called with the progress of a long prompt.
        """
        return self._stream(self._asker.raw(prompt, params), on_progress)

    def chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        **options: Unpack[ChatOptions],
    ) -> Completion:
        """Answer a conversation, rendered by the model's own chat template.

        A message is a mapping with "role" (system, user, assistant or tool) and "content"; those of
        the assistant may have "reasoning_content" and "tool_calls" (Completion.message() makes
        them). Raises TokenizerError if the model has no template or it refuses the messages, and
        what generate() raises.
        """
        return self._complete_all([self._asker.conversation(messages, params, options)])[0]

    def stream_chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        *,
        on_progress: Progress | None = None,
        **options: Unpack[ChatOptions],
    ) -> Iterator[Chunk]:
        """Like chat(), a piece at a time while the answer is made; otherwise like stream()."""
        return self._stream(self._asker.conversation(messages, params, options), on_progress)

    def render(self, messages: Sequence[Message], **options: Unpack[ChatOptions]) -> list[int]:
        """The token ids that chat() would give the model: the rendered conversation, up to where
        the answer begins."""
        text, _ = self._asker.rendered(messages, options)
        return self._asker.encode(text, add_special_tokens=False)

    def request(
        self,
        prompt: Prompt | None,
        params: SamplingParams | None = None,
        *,
        messages: Sequence[Message] | None = None,
        sink: EventSink | None = None,
        deadline: float | None = None,
        **options: Unpack[ChatOptions],
    ) -> Answer:
        """Prepare the answer to a prompt or to messages, for a server. Only submit() starts it.

        Its events go to `sink`, whose put() is called on the engine's thread and must not wait;
        give them to the answer's push(). Without a sink, iterate over the answer's chunks().
        `deadline` is a time of time.monotonic(), at which the answer ends with a DeadlineError.
        Raises ConfigError, CapacityError, TokenizerError, GrammarError.
        """
        if (prompt is None) == (messages is None):
            raise ConfigError("give a prompt or messages, one of them")
        if messages is not None:
            answer = self._asker.conversation(messages, params, options)
        elif options:
            raise ConfigError(f"{', '.join(sorted(options))}: for messages only")
        else:
            answer = self._asker.raw(cast(Prompt, prompt), params)
        answer.request.direct(sink, deadline)
        return answer

    def submit(self, asked: Answer | Scoring | LeadIn) -> None:
        """Queue a prepared answer or question. Raises QueueFullError if `max_queue` requests
        wait already."""
        self._runtime.thread.submit(asked.request, bounded=True)

    def score_request(
        self,
        context: str | None,
        options: Sequence[str],
        *,
        normalize: Normalize = "sum",
        messages: Sequence[Message] | None = None,
        begun: str = "",
        lead_in: LeadIn | None = None,
        sink: EventSink | None = None,
        deadline: float | None = None,
        **chat: Unpack[ChatOptions],
    ) -> Scoring:
        """Prepare the question that score_choices() asks. Only submit() starts it.

        `begun` is how the answer begins that the options go on with. `lead_in` stands in place of
        the messages that it was made of: the options are compared where it, finished, found places
        for them.
        """
        if sum(given is not None for given in (context, messages, lead_in)) != 1:
            raise ConfigError("give a context, messages or a lead-in, one of them")
        rendered = context is None
        if lead_in is not None:
            context = lead_in.prompt
        elif messages is not None:
            context = self._asker.asked(messages, chat)
        text = (context or "") + begun
        scoring = self._asker.question(text, options, normalize, rendered=rendered, lead_in=lead_in)
        scoring.request.direct(sink, deadline)
        return scoring

    def lead_in_request(
        self,
        messages: Sequence[Message],
        options: Sequence[str],
        *,
        sink: EventSink | None = None,
        deadline: float | None = None,
        **chat: Unpack[ChatOptions],
    ) -> LeadIn:
        """Prepare what score_choices() asks first of a conversation: where the model's own answer
        would name an option. Only submit() starts it."""
        lead_in = self._asker.lead_in(self._asker.asked(messages, chat), options)
        lead_in.request.direct(sink, deadline)
        return lead_in

    def score_choices(
        self,
        context: str | None,
        options: Sequence[str],
        *,
        normalize: Normalize = "sum",
        messages: Sequence[Message] | None = None,
        **chat: Unpack[ChatOptions],
    ) -> Scores:
        """Say how likely each option, of 2 to 64 texts, is to follow a context or a conversation.

        Give a context, or None and `messages`. What the options share with the context is read
        once. After messages the model begins its own answer, of at most 24 tokens, and the options
        are compared where it would name one of them; after a context, right at its end.
        `normalize` makes the probabilities from the sum of each option's log-probabilities, or from
        their mean a token. Raises ConfigError, CapacityError, TokenizerError.
        """
        check_options(options, normalize)
        lead_in = None
        if messages is not None and context is None:
            lead_in = self.lead_in_request(messages, options, **chat)
            self._runtime.thread.submit(lead_in.request)
            lead_in, messages, chat = lead_in.wait(), None, {}
        scoring = self.score_request(
            context, options, normalize=normalize, messages=messages, lead_in=lead_in, **chat
        )
        self._runtime.thread.submit(scoring.request)
        return scoring.wait()

    def status(self) -> EngineStatus:
        """What runs and what waits at this moment. It may be asked from any thread."""
        return self._runtime.thread.status()

    def forward(self, token_ids: Sequence[int]) -> F32:
        """The logits of every position: float32 [tokens, vocab_size].

        It needs no tokenizer and leaves no state. The array belongs to the caller and does not
        count towards the memory budget. Raises ConfigError for ids that the model does not have.
        """
        ids, engine = whole_numbers(token_ids), self._engine
        return self._runtime.thread.call(lambda: engine.forward(ids), len(ids))

    def routing(self, request: Request) -> dict[int, Ids]:
        """Which experts each layer selects for the tokens of a request's prompt: int32
        [tokens, k] by layer.

        The prompt is read between two steps of other answers, all of it, and leaves neither state
        nor usage. cancel() of the request ends it within a layer. Raises Cancelled, ConfigError
        for ids that the model does not have, and ReadError.
        """
        heard: dict[int, list[Ids]] = {n: [] for n in self.plan.experts_per_layer}
        engine, experts = self._engine, self.experts

        def read() -> None:
            with experts.apart(lambda layer, topk_ids: heard[layer].append(topk_ids.copy())):
                engine.read(request)

        self._runtime.thread.call(read, len(request.prompt_ids))
        return {layer: np.concatenate(calls) for layer, calls in heard.items()}

    def stats(self) -> Stats:
        """Counters of tokens, reads and memory since the model was loaded."""
        return self._runtime.stats()

    def forecast(self, rates: Rates) -> Forecast:
        """How fast the plan would decode on a machine of these rates, in bytes a second."""
        return self._runtime.forecast(rates)

    def _stream(self, answer: Answer, on_progress: Progress | None) -> Iterator[Chunk]:
        # A generator: nothing is computed for an iterator that nobody starts.
        self._runtime.thread.submit(answer.request)
        yield from answer.chunks(on_progress)

    def _complete_all(self, answers: list[Answer]) -> list[Completion]:
        try:
            for answer in answers:
                self._runtime.thread.submit(answer.request)
            return [answer.complete() for answer in answers]
        finally:
            for answer in answers:
                answer.cancel()
