"""What `coli verify` found, and whether it is good enough. docs/verify.md explains the keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from colibri.lab.verify.records import Compared
from colibri.lab.verify.trunk import ComparedTensor
from colibri.lab.verify.walk import Agreement

FORMAT = 1
_WORST = 10


class Limits(msgspec.Struct, frozen=True):
    """The least or most that is good enough."""

    cosine: float  # of any matrix
    top5: float
    kl_mean: float


# By the coarsest scheme in the converted model. "exact": as in the source, so the same bits.
LIMITS: Mapping[str, Limits] = {
    "exact": Limits(1.0, 1.0, 0.0),
    "int8-gs64": Limits(0.9998, 0.97, 0.005),
    "int4-gs64": Limits(0.98, 0.8, 0.1),
}
_COARSER = ("exact", "int8-gs64", "int4-gs64")


class Matrix(msgspec.Struct, frozen=True):
    name: str
    scheme: str
    cosine: float
    largest_difference: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Matrices of one kind; worst first."""

    compared: int
    of: int
    cosine_mean: float
    cosine_least: float
    worst: list[Matrix]


class Logits(msgspec.Struct, frozen=True, kw_only=True):
    positions: int
    top1: float
    top5: float
    kl_mean: float
    kl_largest: float
    hidden_cosines: list[float]


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    version: str
    source: str
    converted: str
    family: str
    scheme: str
    limits: Limits
    records: Summary
    trunk: Summary
    logits: Logits | None
    failures: list[str]

    @property
    def good(self) -> bool:
        return not self.failures


def coarsest(schemes: Sequence[str]) -> str:
    known = [_scheme(s) for s in schemes]
    return max(known, key=_COARSER.index, default="exact")


def _scheme(stored: str) -> str:
    return stored if stored in LIMITS else "exact"


def of_record(c: Compared) -> Matrix:
    name = f"layers.{c.layer}.experts.{c.expert}.{c.matrix}"
    return Matrix(name, c.scheme, c.cosine, c.largest_difference)


def of_tensor(t: ComparedTensor) -> Matrix:
    return Matrix(t.name, t.stored, t.cosine, t.largest_difference)


def of_logits(found: Agreement) -> Logits:
    return Logits(
        positions=found.positions,
        top1=found.top1,
        top5=found.top5,
        kl_mean=found.kl_mean,
        kl_largest=found.kl_largest,
        hidden_cosines=found.hidden_cosines,
    )


def summary(rows: Sequence[Matrix], total: int) -> Summary:
    cosines = [row.cosine for row in rows] or [1.0]
    return Summary(
        compared=len(rows),
        of=total,
        cosine_mean=sum(cosines) / len(cosines),
        cosine_least=min(cosines),
        worst=sorted(rows, key=lambda row: row.cosine)[:_WORST],
    )


def failures(rows: Sequence[Matrix], logits: Logits | None, limits: Limits) -> list[str]:
    """What is not good enough, in words. A matrix is held to the limit of its own scheme."""
    found = []
    for row in rows:
        least = LIMITS[_scheme(row.scheme)].cosine
        if not row.cosine >= least:  # also what is no number
            found.append(f"{row.name} ({row.scheme}): cosine {row.cosine:.6f} is below {least:g}")
    if logits is not None and not logits.top5 >= limits.top5:
        found.append(f"top-5 agreement of {logits.top5:.3f} is below {limits.top5:g}")
    if logits is not None and not logits.kl_mean <= limits.kl_mean:
        found.append(f"a mean KL of {logits.kl_mean:.4f} is above {limits.kl_mean:g}")
    return found
