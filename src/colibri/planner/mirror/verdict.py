"""What a verification found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FailureKind = Literal[
    "missing",
    "size",
    "header",
    "hash",
    "duplicate",
    "source missing",
    "source changed",
    "invalid receipt",
    "invalid receipt entry",
]


@dataclass(frozen=True)
class Failure:
    kind: FailureKind
    file: str
    detail: str


@dataclass
class Verdict:
    """`mode`: held against the receipt, or (there is none) against the whole model."""

    mode: Literal["receipt", "full"]
    failures: list[Failure] = field(default_factory=list)
    files: int = 0
    nbytes: int = 0

    @property
    def ready(self) -> bool:
        return not self.failures

    def fail(self, kind: FailureKind, file: str, detail: str) -> None:
        self.failures.append(Failure(kind, file, detail))
