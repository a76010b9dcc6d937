"""Threads of arithmetic: as many as were asked for, or as many as may really run at once."""

import math

from colibri.config import EngineConfig
from colibri.hardware import probe
from colibri.kernels import cpu


def use_threads(config: EngineConfig) -> tuple[str, ...]:
    """Sets them, and the CPU path, for the whole process; what should be said of them. Raises
    ConfigError for a path that is not in this processor."""
    facts = probe.facts()
    cpu.configure_as_asked(config.threads or facts.physical_cores, config.cpu)
    return beyond_allowed(config.threads, processors(len(cpu.allowed_cpus()), facts.cpu_quota))


def processors(allowed_cpus: int, quota: float | None) -> int:
    """How many may be at work at once: by the affinity, and by the control group's quota."""
    return allowed_cpus if quota is None else max(1, min(allowed_cpus, math.ceil(quota)))


def beyond_allowed(threads: int | None, allowed: int) -> tuple[str, ...]:
    if threads is None or threads <= allowed:
        return ()
    return (
        f"--threads {threads}: this process may use {allowed} processors at a time; further "
        f"threads wait for a turn and make all wait for them: give {allowed} at most, or leave "
        "it out",
    )
