"""What this machine can do while a model is loaded and idle: about a second, in a process of its
own, so that the model's keeps its budget."""

from __future__ import annotations

from colibri.kernels import cpu
from colibri.lab.gauge import ProcessGauge
from colibri.llm import LLM
from colibri.planner.forecast import Rates
from colibri.planner.rates import extents


def rates_beside(llm: LLM) -> Rates:
    """Raises ReadError."""
    pieces = extents(llm.container.expert_layers())
    with ProcessGauge() as gauge:
        memory = gauge.memory(cpu.num_threads())
        disk = gauge.disk(pieces, llm.experts.readers).bytes_per_second if pieces else None
        compute = gauge.compute(cpu.num_threads(), llm.planes)
    return Rates(memory, disk, compute)
