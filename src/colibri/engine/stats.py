"""What the engine counts while it runs."""

from dataclasses import dataclass, field


def _no_ends() -> dict[str, int]:
    return dict.fromkeys(("stop", "length", "cancelled", "failed"), 0)


@dataclass
class EngineStats:
    """A step's time is shared out to prompts and answers by their tokens in it."""

    prefill_tokens: int = 0  # computed
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    steps: int = 0
    mixed_steps: int = 0  # that advanced prompts and answers together
    started: int = 0  # requests
    prompt_tokens: int = 0  # of them
    cached_tokens: int = 0  # of these, that were not computed anew
    ended: dict[str, int] = field(default_factory=_no_ends)  # requests, by how

    def add(self, prefill_tokens: int, decode_tokens: int, seconds: float) -> None:
        share = seconds / (prefill_tokens + decode_tokens)
        self.prefill_tokens += prefill_tokens
        self.prefill_seconds += prefill_tokens * share
        self.decode_tokens += decode_tokens
        self.decode_seconds += decode_tokens * share
        self.steps += 1
        self.mixed_steps += bool(prefill_tokens and decode_tokens)
