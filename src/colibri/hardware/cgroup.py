"""What the control groups of this process (v1 or v2) allow in memory and processor time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_V1_UNLIMITED = 1 << 60  # v1 says "none" with a number near 2^63


@dataclass(frozen=True)
class MemoryLimit:
    limit_bytes: int
    used_bytes: int  # without the page cache, which the kernel gives up under pressure

    @property
    def available_bytes(self) -> int:
        return max(0, self.limit_bytes - self.used_bytes)


def memory_limits(root: Path = Path("/")) -> list[MemoryLimit]:
    """Every limit between this process and the root of the hierarchy; all of them bind."""
    limits = (_memory_limit(folder, v2) for folder, v2 in _folders(root, "memory"))
    return [limit for limit in limits if limit is not None]


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Processors' worth of time that may be used; None without a quota."""
    quotas = (_cpu_quota(folder, v2) for folder, v2 in _folders(root, "cpu"))
    return min((quota for quota in quotas if quota is not None), default=None)


def _folders(root: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """The group's folder and its ancestors, and whether they are of v2.

    In a container the mount may show the group itself as its root: missing folders are skipped.
    """
    base = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = base / controller if controllers else base
        folder = mount / path.lstrip("/")
        while folder.is_relative_to(mount):
            if folder.is_dir():
                yield folder, not controllers
            folder = folder.parent


def _memory_limit(folder: Path, v2: bool) -> MemoryLimit | None:
    limit = _number(folder / ("memory.max" if v2 else "memory.limit_in_bytes"))
    used = _number(folder / ("memory.current" if v2 else "memory.usage_in_bytes"))
    if limit is None or used is None or limit >= _V1_UNLIMITED:
        return None
    stat = dict(line.split() for line in _lines(folder / "memory.stat"))
    prefix = "" if v2 else "total_"
    cache = sum(int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
    return MemoryLimit(limit, max(0, used - cache))


def _cpu_quota(folder: Path, v2: bool) -> float | None:
    if v2:
        fields = " ".join(_lines(folder / "cpu.max")).split()
    else:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        fields = [line for name in names for line in _lines(folder / name)]
    if len(fields) != 2 or not fields[0].isdecimal() or not fields[1].isdecimal():
        return None  # "max", or -1: no quota
    quota = int(fields[0]) / int(fields[1])
    return quota if math.isfinite(quota) and quota > 0 else None


def _number(file: Path) -> int | None:
    """The number in a file; None for "max" or no file."""
    lines = _lines(file)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:  # absent or not ours to read: nothing is known from it
        return []
