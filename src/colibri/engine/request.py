"""What a caller asks of the engine, and the events that come back on the request's own queue."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Literal

from colibri.grammar import Matcher
from colibri.sampling import SamplingParams

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True)
class PrefillProgress:
    tokens_done: int
    tokens_total: int
    layer: int  # of this chunk's walk
    layers: int
    bytes_read: int
    seconds: float
    eta_seconds: float | None  # None until there is something to judge by


@dataclass(frozen=True)
class Token:
    id: int
    logprob: float | None  # where asked for
    top: tuple[tuple[int, float], ...]  # the most likely ids and their logprobs, where asked for


@dataclass(frozen=True)
class Finished:
    reason: FinishReason


@dataclass(frozen=True)
class Failed:
    error: BaseException


Event = PrefillProgress | Token | Finished | Failed


@dataclass(eq=False)
class Request:
    prompt_ids: Sequence[int]
    params: SamplingParams
    eos_ids: frozenset[int] = frozenset()
    events: "SimpleQueue[Event]" = field(default_factory=SimpleQueue)
    cancelled: bool = False
    matcher: Matcher | None = None  # of the structure that the answer must have

    def cancel(self) -> None:
        """From any thread; takes effect within a layer."""
        self.cancelled = True

    def fail(self, error: BaseException) -> None:
        self.events.put(Failed(error))


@dataclass(eq=False)
class Call:
    """Work between two steps that holds the state of `tokens` positions while it runs."""

    tokens: int
    run: Callable[[], None]
    fail: Callable[[BaseException], None]


class Watch:
    """The requests of the step in hand, and whether anybody still waits for it: the executor asks
    this while it waits for the disk."""

    def __init__(self) -> None:
        self.requests: Sequence[Request] = ()
        self.stopping = False

    def cancelled(self) -> bool:
        if self.stopping:
            return True
        for request in self.requests:  # asked in every layer: no generator
            if not request.cancelled:
                return False
        return bool(self.requests)
