"""What a trace asks of the expert caches, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from colibri.experts.base import Ids
from colibri.experts.walks import is_walked_in_order
from colibri.routing.trace import Header, TraceFile


@dataclass(frozen=True)
class Demand:
    """One call of a layer: the union of its rows' experts."""

    layer: int
    experts: list[int]  # ascending
    ids: Ids  # the same
    prefill: bool
    in_order: bool  # walked in ascending order, as the engine does where outputs take much memory
    step: int  # number of the walk through the layers


def demands(trace: TraceFile) -> Iterator[Demand]:
    """In the order of the run. Raises what TraceFile does."""
    header, step, last = trace.header, 0, -1
    for call in trace.calls():
        step += call.layer <= last
        last = call.layer
        union = np.unique(call.ids)
        in_order = _in_order(header, call.ids.size)
        yield Demand(call.layer, union.tolist(), union, call.prefill, in_order, step)


def _in_order(header: Header, pairs: int) -> bool:
    return is_walked_in_order(pairs, header.hidden_size, header.pair_buffer_bytes)
