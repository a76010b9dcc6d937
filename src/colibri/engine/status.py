"""What the engine does at a moment, for whoever watches it from another thread."""

from dataclasses import dataclass

from colibri.engine.stats import EngineStats


@dataclass(frozen=True)
class RequestStatus:
    """One running request."""

    prompt_tokens: int
    """Tokens of its prompt."""
    cached_tokens: int
    """Those of them that did not have to be computed."""
    read_tokens: int
    """Those of them that are read by now, the cached ones among them."""
    new_tokens: int
    """Tokens of the answer so far."""
    seconds: float
    """Seconds since it started."""


@dataclass(frozen=True)
class EngineStatus:
    """What the engine does at this moment."""

    running: tuple[RequestStatus, ...]
    """The requests that are being read or answered."""
    waiting: int
    """How many requests wait for their turn."""
    stats: EngineStats
    """A copy of the engine's counters."""
    kept_tokens: int
    """Tokens of ended requests that are kept for prompts that begin alike."""
    context: int
    """Tokens that all running requests may have together."""
