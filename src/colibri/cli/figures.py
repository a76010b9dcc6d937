"""Numbers as people read them."""

from __future__ import annotations

from colibri.lab.units import size as size
from colibri.words import count as count


def duration(seconds: float) -> str:
    """0.35 s, 12.4 s, 3 min 05 s, 2 h 07 min."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def rate(count: float, seconds: float, unit: str) -> str:
    if seconds <= 0:
        return f"- {unit}"
    per_second = count / seconds
    return f"{per_second:.{2 if per_second < 10 else 1}f} {unit}"


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
