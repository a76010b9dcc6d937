"""A plan of another machine, made on this one: what it has and this one does not is believed."""

from dataclasses import replace

from colibri.config import EngineConfig, parse_bytes
from colibri.hardware import probe
from colibri.kernels import cpu
from colibri.planner.budget import MB, Machine
from colibri.planner.threads import processors, use_threads

Notes = tuple[str, ...]


def machine_meant(config: EngineConfig, here: Machine) -> tuple[Machine, Notes]:
    """This one, or where --ram is more than it has one that has so much."""
    if config.ram == "auto":
        return here, ()
    nbytes = parse_bytes(config.ram, total=here.total_bytes)
    if nbytes <= here.total_bytes or "%" in config.ram:
        return here, ()
    note = (
        f"--ram {config.ram} is more than the {here.total_bytes / MB:,.0f} MB of this machine: "
        "planned for one that has it; here a run would refuse"
    )
    return replace(here, total_bytes=nbytes, available_bytes=nbytes), (note,)


def use_what_is_here(config: EngineConfig) -> Notes:
    """As a run does, to measure with, of the threads and the CPU path that there are here."""
    facts = probe.facts()
    allowed = processors(len(cpu.allowed_cpus()), facts.cpu_quota)
    notes: Notes = ()
    if config.threads is not None and config.threads > allowed:
        notes += (
            f"--threads {config.threads}: this machine lets {allowed} work at a time, and what "
            "was measured was measured with these",
        )
        config = replace(config, threads=allowed)
    if config.cpu not in ("auto", *cpu.supported_paths()):
        notes += (f"--cpu {config.cpu} is not in this processor: here a run would refuse",)
        config = replace(config, cpu="auto")
    return notes + use_threads(config)
