"""Threads and CPU path of the native module."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from colibri import _native
from colibri.errors import ConfigError

_TOPOLOGY = Path("/sys/devices/system/cpu")


def configure(threads: int | None = None, path: str | None = None) -> None:
    """Set the number of threads (None: the physical cores) and the CPU path (None: the best).

    Neither changes a bit of any result. ValueError if the path is not supported here.
    """
    _native.use_path(path if path is not None else _native.supported_paths()[-1])
    _native.set_num_threads(threads if threads is not None else physical_cores())


def active_path() -> str:
    return _native.active_path()


def num_threads() -> int:
    return _native.num_threads()


def configure_as_asked(threads: int | None, path: str) -> None:
    """The same, `path` being a setting: "auto" or a name. Raises ConfigError for one not here."""
    here = supported_paths()
    if path != "auto" and path not in here:
        raise ConfigError(f"cpu: {path} is not in this processor; it has {', '.join(here)}")
    configure(threads, None if path == "auto" else path)


def supported_paths() -> list[str]:
    """Paths that run here, slowest first."""
    return _native.supported_paths()


def cpu_features() -> dict[str, object]:
    """What the kernels run on: machine, the paths supported here (slowest first) and the one in
    use, threads in use, physical cores that this process may use."""
    return {
        "machine": platform.machine(),
        "paths": _native.supported_paths(),
        "path": _native.active_path(),
        "threads": _native.num_threads(),
        "physical_cores": physical_cores(),
    }


def physical_cores(topology: Path = _TOPOLOGY) -> int:
    """Cores in this process's affinity mask and cgroup quota, hyper-threads counted once."""
    cpus = allowed_cpus()
    cores = {_siblings(topology, cpu) for cpu in cpus}
    return max(1, min(len(cores), _quota_cores()))


def allowed_cpus() -> list[int]:
    """Logical processors in this process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _siblings(topology: Path, cpu: int) -> str:
    """A name of the core that `cpu` belongs to: the list of its hyper-threads."""
    file = topology / f"cpu{cpu}" / "topology" / "thread_siblings_list"
    try:
        return file.read_text().strip()
    except OSError:
        return str(cpu)


def _quota_cores(file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Whole cores of the cgroup's CPU quota, at least 1; without a quota, no limit."""
    unlimited = 1 << 30
    try:
        quota, period = file.read_text().split()
    except (OSError, ValueError):
        return unlimited
    return unlimited if quota == "max" else max(1, int(quota) // int(period))
