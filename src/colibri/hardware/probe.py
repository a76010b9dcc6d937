"""The machine as facts. None means unknown; nothing is guessed."""

import math
import mmap
import platform
import re
import resource
from dataclasses import dataclass
from pathlib import Path

import psutil

from colibri.hardware.cgroup import cpu_quota, memory_limits
from colibri.kernels.cpu import physical_cores


@dataclass(frozen=True)
class Facts:
    machine: str  # x86_64, aarch64, ...
    cpu_model: str | None
    physical_cores: int  # that this process may use: affinity and quota; hyper-threads once
    cpu_quota: float | None  # processors' worth of time the control group allows; None: no limit
    memory_bytes: int
    memory_available_bytes: int
    cgroup_memory_bytes: int | None  # the tightest limit; None: no limit
    usable_bytes: int  # what may be used now: the least of the machine's and every limit's rest
    page_bytes: int


def facts(root: Path = Path("/")) -> Facts:
    """root: where /proc and /sys are, for tests."""
    quota = cpu_quota(root)
    total, available = _memory(root / "proc/meminfo")
    limits = memory_limits(root)
    return Facts(
        machine=platform.machine(),
        cpu_model=_cpu_model(root / "proc/cpuinfo"),
        physical_cores=_cores(root / "sys/devices/system/cpu", quota),
        cpu_quota=quota,
        memory_bytes=total,
        memory_available_bytes=available,
        cgroup_memory_bytes=min((limit.limit_bytes for limit in limits), default=None),
        usable_bytes=min([available, *(limit.available_bytes for limit in limits)]),
        page_bytes=mmap.PAGESIZE,
    )


def rss_bytes() -> int:
    """Resident memory of this process; mapped files count with what is touched of them."""
    return resident_bytes("self") or int(psutil.Process().memory_info().rss)


def resident_bytes(process: str | int, root: Path = Path("/")) -> int:
    """Of a process by its number; 0 where the system does not say. Cheap: asked while decoding."""
    try:
        with open(f"{root}/proc/{process}/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except (OSError, IndexError, ValueError):
        return 0


def peak_rss_bytes() -> int:
    """The most this process ever had resident."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        status = ""
    if found := re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE):
        return int(found[1]) * 1024
    # On Linux this would count what a large parent had before it started this program.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def free_bytes(path: Path) -> int:
    """Bytes that this user may still write where `path` is, or will be once made.

    Raises OSError if not even a parent can be looked at.
    """
    return psutil.disk_usage(str(existing(path))).free


def disk_bytes(path: Path) -> int:
    """The size of the file system where `path` is, or will be once made."""
    return psutil.disk_usage(str(existing(path))).total


def existing(path: Path) -> Path:
    """The path itself, or the nearest parent that is there."""
    return next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())


def _memory(meminfo: Path) -> tuple[int, int]:
    """All memory, and what programs may still take without swapping: the kernel's own estimate,
    which counts page cache that it would give up."""
    try:
        text = meminfo.read_text(encoding="ascii", errors="replace")
    except OSError:
        text = ""
    found = dict(re.findall(r"^(Mem\w+):\s+(\d+) kB$", text, re.MULTILINE))
    if "MemTotal" in found and "MemAvailable" in found:
        return int(found["MemTotal"]) * 1024, int(found["MemAvailable"]) * 1024
    memory = psutil.virtual_memory()
    return memory.total, memory.available


def _cpu_model(cpuinfo: Path) -> str | None:
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return None
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, None) or None


def _cores(topology: Path, quota: float | None) -> int:
    cores = physical_cores(topology)
    return cores if quota is None else max(1, min(cores, math.floor(quota)))
