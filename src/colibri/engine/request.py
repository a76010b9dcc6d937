"""What a caller asks of the engine, and the events that come back."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from queue import SimpleQueue
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from colibri.errors import DeadlineError
from colibri.grammar import Matcher
from colibri.sampling import SamplingParams

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True)
class PrefillProgress:
    """How far the reading of a prompt is."""

    tokens_done: int
    """Tokens of the prompt that are read, those taken from earlier requests among them."""
    tokens_total: int
    """Tokens of the prompt."""
    layer: int
    """The layer that the chunk being read has reached."""
    layers: int
    """Layers of the model."""
    bytes_read: int
    """Bytes of experts read from disk since the model was loaded."""
    seconds: float
    """Seconds since the request started."""
    eta_seconds: float | None
    """Seconds that are probably left; None until there is something to judge by."""


@dataclass(frozen=True)
class Token:
    id: int
    logprob: float | None  # where asked for
    top: tuple[tuple[int, float], ...]  # the most likely ids and their logprobs, where asked for


@dataclass(frozen=True)
class PromptLogprobs:
    """Of the prompt's next tokens, in order; its first token has none and is left out."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class BranchLogprobs:
    """Of every token of each of the request's branches."""

    branches: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Finished:
    reason: FinishReason


@dataclass(frozen=True)
class Failed:
    error: BaseException


Event = PrefillProgress | PromptLogprobs | BranchLogprobs | Token | Finished | Failed


class TokenWatch(Protocol):
    """Sees every token of an answer but the one that ends a text, in order; True: the answer ends
    with this one. Called on the engine's thread."""

    def __call__(self, token_id: int, /) -> bool: ...


class EventSink(Protocol):
    """Where a request's events go. Called on the engine's thread (a stalled engine's last event
    comes from the watchdog's): it must not wait."""

    def put(self, event: Event, /) -> None: ...


@dataclass(eq=False)
class Request:
    """branches: continuations of the prompt to be scored, instead of an answer. marks: lengths of
    the prompt at which other prompts may part from it. deadline: of time.monotonic(). watch: looks
    for stop strings."""

    prompt_ids: Sequence[int]
    params: SamplingParams
    eos_ids: frozenset[int] = frozenset()
    events: EventSink = field(default_factory=lambda: SimpleQueue[Event]())
    cancelled: bool = False
    matcher: Matcher | None = None  # of the structure that the answer must have
    deadline: float | None = None
    watch: TokenWatch | None = None
    branches: Sequence[Sequence[int]] = ()
    marks: Sequence[int] = ()
    cached_tokens: int = 0  # of the prompt, that were not computed anew; set when it starts
    ended: bool = False  # its last event was sent
    end: str = ""  # how: a FinishReason or "failed"

    @cached_property
    def prompt_array(self) -> NDArray[np.int32]:
        return np.asarray(self.prompt_ids, np.int32)

    @property
    def most_tokens(self) -> int:
        """That may follow the prompt."""
        longest = max((len(branch) for branch in self.branches), default=0)
        return max(longest, 0 if self.branches else self.params.max_tokens)

    def direct(self, sink: EventSink | None, deadline: float | None) -> None:
        """Before it is submitted. None: the events stay here."""
        self.deadline = deadline
        if sink is not None:
            self.events = sink

    def cancel(self) -> None:
        """From any thread; takes effect within a layer."""
        self.cancelled = True

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def unwanted(self) -> bool:
        """Nobody waits for the answer any more."""
        return self.cancelled or self.ended or self.late

    def end_unwanted(self) -> None:
        """Its last event, unless it had one."""
        if self.late and not self.cancelled:
            self.fail(DeadlineError("the deadline passed before the answer was whole"))
        else:
            self.send(Finished("cancelled"))

    def send(self, event: Event) -> None:
        """Nothing follows the last event."""
        if self.ended:
            return
        if isinstance(event, Finished | Failed):
            self.ended = True
            self.end = event.reason if isinstance(event, Finished) else "failed"
        try:
            self.events.put(event)
        except Exception:
            # The sink is the caller's, and the caller is gone; the others' answers go on.
            self.cancelled = True

    def fail(self, error: BaseException) -> None:
        self.send(Failed(error))


@dataclass(eq=False)
class Call:
    """Work between two steps that holds the state of `tokens` positions while it runs."""

    tokens: int
    run: Callable[[], None]
    fail: Callable[[BaseException], None]
