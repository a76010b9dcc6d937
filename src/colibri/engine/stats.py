"""What the engine counts while it runs."""

from dataclasses import dataclass, field, replace


def _no_ends() -> dict[str, int]:
    return dict.fromkeys(("stop", "length", "cancelled", "failed"), 0)


@dataclass
class EngineStats:
    prefill_tokens: int = 0  # computed
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    mixed_tokens: int = 0  # of answers, made in steps that read prompts: their time is prefill's
    steps: int = 0
    mixed_steps: int = 0
    started: int = 0  # requests
    prompt_tokens: int = 0  # of them
    cached_tokens: int = 0  # of these, that were not computed anew
    ended: dict[str, int] = field(default_factory=_no_ends)  # requests, by how

    def add(self, prefill_tokens: int, decode_tokens: int, seconds: float) -> None:
        self.steps += 1
        if prefill_tokens:
            self.prefill_tokens += prefill_tokens
            self.prefill_seconds += seconds
            self.mixed_tokens += decode_tokens
            self.mixed_steps += decode_tokens > 0
        else:
            self.decode_tokens += decode_tokens
            self.decode_seconds += seconds

    def copy(self) -> "EngineStats":
        return replace(self, ended=dict(self.ended))
