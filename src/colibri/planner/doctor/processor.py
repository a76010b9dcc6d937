"""Checks of what computes: instruction set, clocks, cores, nodes."""

from __future__ import annotations

from collections.abc import Sequence

from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, passed, warned
from colibri.words import count

# These drivers' "powersave" raises the clock with the load as others' "schedutil" does.
_ADAPTIVE = ("intel_pstate", "amd-pstate-epp", "amd-pstate")


def path(case: Case) -> Sequence[Found]:
    """The kernels run on vectors."""
    name = case.machine.cpu_path
    if name == "scalar":
        fix = "unset --cpu or COLI_CPU; a processor without AVX2 or NEON dot products is slow"
        return [warned("the arithmetic runs without vector instructions (scalar)", fix=fix)]
    model = case.machine.host.facts.cpu_model
    return [passed(f"{name}" + (f" on {model}" if model else ""))]


def governor(case: Case) -> Sequence[Found]:
    """The clock may rise."""
    host = case.machine.host
    slow = "powersave" in host.governors and host.scaling_driver not in _ADAPTIVE
    if slow:
        fix = "sudo cpupower frequency-set -g performance"
        return [warned("the governor powersave keeps the clock low", "cpufreq", fix=fix)]
    if not host.governors:
        return [passed("the system leaves the clock to somebody else (a guest, or no cpufreq)")]
    return [passed(f"governor {', '.join(sorted(host.governors))}")]


def affinity(case: Case) -> Sequence[Found]:
    """All the cores there are may be used."""
    host = case.machine.host
    cores, quota = host.facts.physical_cores, host.facts.cpu_quota
    found = []
    if host.allowed_cpus < host.online_cpus:
        what = f"only {host.allowed_cpus} of {host.online_cpus} CPUs may be used"
        fix = "start without taskset or a cpuset; threads follow what is allowed"
        found.append(warned(what, "affinity", fix=fix))
    if quota is not None and quota < host.allowed_cpus:
        what = f"the control group allows {quota:g} CPUs' time of {host.allowed_cpus}"
        fix = "raise the container's CPU limit; threads follow what is allowed"
        found.append(warned(what, "control group", fix=fix))
    return found or [passed(f"{count(cores, 'physical core')} may be used")]


def numa(case: Case) -> Sequence[Found]:
    """Memory of another socket is slower, so weights are spread over all of them."""
    nodes = case.machine.host.numa_nodes
    if nodes <= 1:
        return [passed("one memory node")]
    if case.config.numa == "off":
        what = f"{nodes} memory nodes, and --numa off: weights may all lie on one"
        return [warned(what, fix="leave --numa off and COLI_NUMA=0 out")]
    return [passed(f"{nodes} memory nodes; trunk and experts are spread over them (--numa)")]
