"""Numbers of a report as people read them; None is a dash."""

from __future__ import annotations

DASH = "-"


def size(count: float | None) -> str:
    """Decimal units: 820 B, 12.3 MB, 4.56 GB."""
    if count is None:
        return DASH
    for unit, digits, scale in (("TB", 2, 1e12), ("GB", 2, 1e9), ("MB", 1, 1e6), ("kB", 0, 1e3)):
        if count >= scale:
            return f"{count / scale:.{digits}f} {unit}"
    return f"{count:.0f} B"


def time(seconds: float | None) -> str:
    """12.3 µs, 4.56 ms, 1.23 s, 75.0 s."""
    if seconds is None:
        return DASH
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds:.{2 if seconds < 10 else 1}f} s"


def rate(per_second: float) -> str:
    return f"{per_second:.{2 if per_second < 100 else 0}f} tok/s"


def bandwidth(bytes_per_second: float | None) -> str:
    return DASH if bytes_per_second is None else size(bytes_per_second) + "/s"


def percent(fraction: float | None) -> str:
    return DASH if fraction is None else f"{100 * fraction:.1f} %"


def ratio(value: float | None) -> str:
    return DASH if value is None else f"{value:.3f}"
