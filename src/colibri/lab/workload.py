"""What the bench asks of a model."""

from __future__ import annotations

from dataclasses import dataclass

from colibri.errors import ConfigError

_LEAST = {"prompt_tokens": 1, "new_tokens": 2, "warmup": 0, "repeat": 1, "conversations": 1}


@dataclass(frozen=True)
class Workload:
    prompt_tokens: int = 128
    new_tokens: int = 32
    warmup: int = 1
    repeat: int = 3
    cold: bool = False
    routing: str = "model"
    seed: int = 0
    conversations: int = 1  # more: they are measured beside one alone

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                flag = "--" + name.replace("_", "-")
                raise ConfigError(f"{flag} {getattr(self, name)}: at least {least}")

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.new_tokens
