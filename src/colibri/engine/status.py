"""What the engine does at a moment, for whoever watches it from another thread."""

from dataclasses import dataclass

from colibri.engine.stats import EngineStats


@dataclass(frozen=True)
class RequestStatus:
    prompt_tokens: int
    cached_tokens: int  # of them, that were not computed anew
    read_tokens: int  # of them, that are in its state by now
    new_tokens: int  # of the answer
    seconds: float  # since it started


@dataclass(frozen=True)
class EngineStatus:
    running: tuple[RequestStatus, ...]
    waiting: int
    stats: EngineStats  # a copy
    kept_tokens: int  # of sequences that ended, for prompts that begin alike
    context: int  # tokens that all that runs may have together
