"""How much memory the process may have: asked for, or what is really available."""

from dataclasses import dataclass, replace

from colibri.config import parse_bytes
from colibri.errors import CapacityError
from colibri.hardware import probe
from colibri.hardware.neighbours import Neighbour, neighbours

MB = 1_000_000
AVAILABLE_SHARE = 0.9  # of what is free now, for `--ram auto`
_WORTH_SAYING = 0.05  # neighbours that hold less, beside what is available, change little


@dataclass(frozen=True)
class Machine:
    """Memory facts at the moment of planning."""

    total_bytes: int  # of the machine, or of the tightest control group
    available_bytes: int  # what this process may still take
    rss_bytes: int  # what it has taken
    neighbours: tuple[Neighbour, ...] = ()  # other processes that run colibri

    @property
    def neighbour_bytes(self) -> int:
        return sum(neighbour.rss_bytes for neighbour in self.neighbours)

    def assuming_free(self) -> "Machine":
        """As it will be once the neighbours have ended."""
        available = min(self.available_bytes + self.neighbour_bytes, self.total_bytes)
        return replace(self, available_bytes=available, neighbours=())


def this_machine() -> Machine:
    facts = probe.facts()
    total = min(facts.memory_bytes, facts.cgroup_memory_bytes or facts.memory_bytes)
    return Machine(total, facts.usable_bytes, probe.rss_bytes(), neighbours())


@dataclass(frozen=True)
class Budget:
    nbytes: int
    reason: str
    notes: tuple[str, ...] = ()  # what may make it other than expected


def resolve_budget(ram: str, machine: Machine) -> Budget:
    """`ram` as EngineConfig has it. Raises CapacityError for more than there is."""
    if ram == "auto":
        own, free = machine.rss_bytes, machine.available_bytes
        reason = (
            f"{AVAILABLE_SHARE:.0%} of the {free / MB:,.0f} MB that are free, plus what the "
            "process already uses"
        )
        return Budget(own + int(free * AVAILABLE_SHARE), reason, _neighbours(machine))
    nbytes = parse_bytes(ram, total=machine.total_bytes)
    if nbytes > machine.total_bytes:
        raise CapacityError(
            f"--ram {ram} is {nbytes / MB:,.0f} MB, more than the "
            f"{machine.total_bytes / MB:,.0f} MB there are"
        )
    share = f" of {machine.total_bytes / MB:,.0f} MB" if "%" in ram else ""
    return Budget(nbytes, f"--ram {ram}{share}", _beyond_available(nbytes, machine))


def _neighbours(machine: Machine) -> tuple[str, ...]:
    if machine.neighbour_bytes <= _WORTH_SAYING * machine.available_bytes:
        return ()
    return (
        f"{named(machine.neighbours)}: what is free is less for it; "
        "`coli plan --assume-free` plans as if that had ended",
    )


def _beyond_available(nbytes: int, machine: Machine) -> tuple[str, ...]:
    possible = machine.rss_bytes + machine.available_bytes
    if nbytes <= possible:
        return ()
    held = f" ({named(machine.neighbours)})" if machine.neighbours else ""
    return (
        f"the budget of {nbytes / MB:,.0f} MB is more than the {possible / MB:,.0f} MB that are "
        f"free now{held}: once it is filled the system may swap, or kill this process",
    )


def named(others: tuple[Neighbour, ...]) -> str:
    """Who holds how much."""
    held = sum(other.rss_bytes for other in others)
    pids = ", ".join(str(other.pid) for other in others[:5])
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    what = "another colibri process holds" if len(others) == 1 else "other colibri processes hold"
    return f"{what} {held / MB:,.0f} MB (pid {pids}{more})"
