"""What the control groups of this process (v1 or v2) allow in memory and processor time."""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_V1_UNLIMITED = 1 << 60  # v1 says "none" with a number near 2^63


@dataclass(frozen=True)
class MemoryLimit:
    limit_bytes: int
    used_bytes: int  # without what the kernel gives up under pressure, page cache above all

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
        fields = line.split(":", 2)
        if len(fields) < 3 or (fields[1] and controller not in fields[1].split(",")):
            continue
        _, controllers, path = fields
        mount = base / controller if controllers else base
        folder = mount / path.lstrip("/")
        while folder.is_relative_to(mount):
            if os.path.isdir(folder):  # false where it may not be looked at
                yield folder, not controllers
            folder = folder.parent


def _memory_limit(folder: Path, v2: bool) -> MemoryLimit | None:
    stat = _stat(folder / "memory.stat")
    if v2:
        # Above "high" the kernel slows the group down until it gives memory back: no less binding.
        limits = [_number(folder / "memory.max"), _number(folder / "memory.high")]
        used = _number(folder / "memory.current")
    else:
        # The hierarchical limit is also that of parents which a container's mount does not show.
        limits = [_number(folder / "memory.limit_in_bytes"), stat.get("hierarchical_memory_limit")]
        used = _number(folder / "memory.usage_in_bytes")
    limit = min((n for n in limits if n is not None and n < _V1_UNLIMITED), default=None)
    if limit is None or used is None:
        return None
    return MemoryLimit(limit, max(0, used - _reclaimable(stat, v2)))


def _reclaimable(stat: Mapping[str, int], v2: bool) -> int:
    """What the kernel gives up under pressure: pages of files (a tmpfs's are not among them) and,
    where it is counted, its own caches of names and inodes."""
    prefix = "" if v2 else "total_"
    kinds = ("active_file", "inactive_file", "slab_reclaimable")  # v1 does not count the last
    return sum(stat.get(prefix + kind, 0) for kind in kinds)


def _stat(file: Path) -> dict[str, int]:
    fields = (line.split() for line in _lines(file))
    return {f[0]: int(f[1]) for f in fields if len(f) == 2 and f[1].isdecimal()}


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
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # absent or not ours to read: nothing is known from it
        return []
