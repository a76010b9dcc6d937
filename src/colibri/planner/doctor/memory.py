"""Checks of memory: does the model fit, and will what it holds stay there."""

from __future__ import annotations

from collections.abc import Sequence

from colibri.planner.budget import MB, Machine, named
from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, passed, warned
from colibri.planner.ofmodel import plan_of
from colibri.text.tokenizermemory import memory_of

_LITTLE_BYTES = 1_000 * MB
_SWAPPED_SHARE = 0.2
_CGROUP_SHARE = 0.5


def plan(case: Case) -> Sequence[Found]:
    """The model fits into the budget, with at least one token's experts a layer."""
    facts, container, config = case.machine.host.facts, case.model.container, case.model.parsed
    total = min(facts.memory_bytes, facts.cgroup_memory_bytes or facts.memory_bytes)
    machine = Machine(total, facts.usable_bytes, case.machine.rss_bytes, case.machine.neighbours)
    made = plan_of(container, case.config, memory_of(case.model.path), machine)
    few = min(made.slots.values(), default=0)
    of = max(made.experts_per_layer.values(), default=0)
    needed = getattr(config, "num_experts_per_tok", 0)
    what = (
        f"peak {made.peak_bytes / MB:,.0f} MB of a budget of {made.budget_bytes / MB:,.0f} MB; "
        f"{few} of {of} experts a layer in memory"
    )
    if made.slots and few < needed:
        fix = "raise --ram, or lower --context or --trunk-bits"
        return [warned(f"{what}, and a token needs {needed}: very slow", fix=fix)]
    return [passed(what)]


def available(case: Case) -> Sequence[Found]:
    """There is free memory at all."""
    facts = case.machine.host.facts
    what = f"{facts.usable_bytes / MB:,.0f} of {facts.memory_bytes / MB:,.0f} MB can be used now"
    if facts.usable_bytes < _LITTLE_BYTES:
        return [warned(what, fix="end programs that hold memory: `coli` takes what is free")]
    return [passed(what)]


def control_group(case: Case) -> Sequence[Found]:
    """What a container or service manager allows."""
    facts = case.machine.host.facts
    limit = facts.cgroup_memory_bytes
    if limit is None or limit >= facts.memory_bytes:
        return [passed("the control group sets no limit to memory")]
    what = f"the control group allows {limit / MB:,.0f} of {facts.memory_bytes / MB:,.0f} MB"
    if limit < _CGROUP_SHARE * facts.memory_bytes:
        fix = "raise the container's or service's memory limit if the model needs more"
        return [warned(what, fix=fix)]
    return [passed(what)]


def swap(case: Case) -> Sequence[Found]:
    """Pages that were swapped out come back one by one, far slower than an expert is read."""
    host = case.machine.host
    if not host.swap_bytes:
        return [passed("no swap space")]
    what = f"{host.swap_used_bytes / MB:,.0f} of {host.swap_bytes / MB:,.0f} MB of swap in use"
    if host.swap_used_bytes > _SWAPPED_SHARE * host.facts.memory_bytes:
        fix = "end what holds the memory, or lower --ram: swapped experts are slower than read ones"
        return [warned(what, fix=fix)]
    return [passed(what)]


def huge_pages(case: Case) -> Sequence[Found]:
    """Expert slots ask for them: fewer TLB misses, larger disk requests."""
    mode = case.machine.host.huge_pages
    where = "/sys/kernel/mm/transparent_hugepage/enabled"
    if mode == "never":
        fix = f"echo madvise | sudo tee {where}"
        return [warned("transparent huge pages are switched off", where, fix=fix)]
    if mode is None:
        return [passed("the system does not say whether it has huge pages")]
    return [passed(f"transparent huge pages: {mode}", where)]


def others(case: Case) -> Sequence[Found]:
    """Other processes that run colibri: what they hold is not free for this one."""
    others = case.machine.neighbours
    if not others:
        return [passed("no other colibri runs here")]
    # One line however many there are: it must not bury the rest.
    largest = max(others, key=lambda other: other.rss_bytes)
    kind = "" if len(others) == 1 else "the largest: "
    what = f"{named(others)}; {kind}{largest.brief}"
    same = [str(o.pid) for o in others if str(case.model.path.absolute()) in o.command]
    if same:
        what += f"; this very model: pid {', '.join(same[:5])}"
        fix = "use the one with this model, or end it: each process loads the model for itself"
    else:
        fix = "end what is not needed: a plan made now counts on what is left"
    return [warned(what, fix=fix)]


PLAN_FIX = "raise --ram, or lower what the message names"
