"""What the engine counts while it runs."""

from dataclasses import dataclass


@dataclass
class EngineStats:
    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    decode_seconds: float = 0.0

    def add(self, prefill: bool, tokens: int, seconds: float) -> None:
        if prefill:
            self.prefill_tokens += tokens
            self.prefill_seconds += seconds
        else:
            self.decode_tokens += tokens
            self.decode_seconds += seconds
