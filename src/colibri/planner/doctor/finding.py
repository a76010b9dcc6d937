"""What a check found. docs/doctor.md explains the fields and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

FORMAT = 1
Status = Literal["pass", "warn", "fail", "skip"]
Verdict = Literal["ready", "ready, with warnings", "not ready"]
_MOST = 10


class Found(msgspec.Struct, frozen=True):
    status: Status
    what: str
    where: str = ""
    fix: str = ""


class Finding(msgspec.Struct, frozen=True):
    """A Found with the name of the check that made it."""

    check: str
    status: Status
    what: str
    where: str
    fix: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `coli doctor --json` prints."""

    format: int = FORMAT
    version: str
    model: str
    verdict: Verdict
    findings: list[Finding]


def passed(what: str, where: object = "") -> Found:
    return Found("pass", what, str(where))


def warned(what: str, where: object = "", *, fix: str) -> Found:
    return Found("warn", what, str(where), fix)


def failed(what: str, where: object = "", *, fix: str) -> Found:
    return Found("fail", what, str(where), fix)


def skipped(why: str) -> Found:
    return Found("skip", why)


def verdict(findings: Sequence[Finding]) -> Verdict:
    """One failure decides; a skipped check decides nothing."""
    states = {finding.status for finding in findings}
    if "fail" in states:
        return "not ready"
    return "ready, with warnings" if "warn" in states else "ready"


def at_most_a_few(found: Sequence[Found]) -> Iterator[Found]:
    """The first ones, and how many more of the kind there are: a damaged disk has thousands."""
    yield from found[:_MOST]
    if len(found) > _MOST:
        yield Found(found[0].status, f"and {len(found) - _MOST} more like these", fix=found[0].fix)
