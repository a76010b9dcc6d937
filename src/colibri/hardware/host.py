"""What of the operating system's state decides speed or failure: swap, huge pages, clocks, limits.

None means that the system does not say.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from colibri.hardware.descriptors import most_open
from colibri.hardware.probe import Facts, facts
from colibri.kernels.cpu import allowed_cpus

_CPUS = Path("sys/devices/system/cpu")
_NODES = Path("sys/devices/system/node")
_HUGE_PAGES = Path("sys/kernel/mm/transparent_hugepage/enabled")
_CHOSEN = re.compile(r"\[(\w+)\]", re.ASCII)


@dataclass(frozen=True)
class Host:
    facts: Facts
    online_cpus: int
    allowed_cpus: int  # by this process's affinity
    governors: frozenset[str]
    scaling_driver: str | None
    numa_nodes: int  # that have memory
    huge_pages: str | None  # always, madvise or never
    swap_bytes: int
    swap_used_bytes: int
    open_files_limit: int | None  # to which a process may raise it; None: no limit


def host(root: Path = Path("/")) -> Host:
    """root: where /proc and /sys are, for tests."""
    swap = psutil.swap_memory()
    policies = [root / _CPUS / f"cpu{n}" / "cpufreq" for n in range(os.cpu_count() or 1)]
    return Host(
        facts=facts(root),
        online_cpus=os.cpu_count() or 1,
        allowed_cpus=len(allowed_cpus()),
        governors=frozenset(g for p in policies if (g := _text(p / "scaling_governor"))),
        scaling_driver=_text(policies[0] / "scaling_driver"),
        numa_nodes=_nodes_with_memory(root / _NODES),
        huge_pages=_chosen(_text(root / _HUGE_PAGES)),
        swap_bytes=swap.total,
        swap_used_bytes=swap.used,
        open_files_limit=most_open(),
    )


def _nodes_with_memory(nodes: Path) -> int:
    """Of "0-1,3" three; 1 where the system has no notion of it."""
    count = 0
    for part in (_text(nodes / "has_memory") or "0").split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return 1
        count += int(last or first) - int(first) + 1
    return max(count, 1)


def _chosen(text: str | None) -> str | None:
    """Of "always [madvise] never" the one in brackets."""
    found = _CHOSEN.search(text or "")
    return found[1] if found else None


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip() or None
    except OSError:
        return None
