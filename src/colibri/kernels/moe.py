"""The routed experts of a layer: SwiGLU experts read in place, wherever their weights lie.

The bits of one expert's output for one token depend on nothing else, and the sum over a token's
experts always runs in ascending expert id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colibri import _native
from colibri.formats.base import Format

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ExpertLayout:
    """Sizes and storage of every expert of a layer.

    Packed: the blocks of gate and up alternate in the record, those of down follow. Dense: gate
    and up [inner, hidden] and down [hidden, inner] row-major, at any alignment, and of formats that
    have them each with its scales; `up_first` is where up's first row is in its block.
    """

    format: Format
    hidden: int
    inner: int
    up_first: int = 0

    @property
    def num_parts(self) -> int:
        """Addresses of an expert: of gate, up and down, then of their scales if they have any."""
        return 3 * len(self.format.parts)


class ExpertTable:
    """The experts of a layer: where each lies, and whether it is at hand.

    parts [num_experts, num_parts]: addresses; packed: (record, record, first down block), others:
    (gate, up, down, then their scales if they have any); 0: none. mults [num_experts, 3]:
    multipliers of gate, up, down. at_hand [num_experts]: which ones norm_moe may run; None: all.
    planes: 1 or 2, of packed experts. The arrays may change between calls; the caller keeps the
    memory of experts that are run alive and unchanged during the call.
    """

    def __init__(
        self,
        layout: ExpertLayout,
        parts: U64,
        mults: F32,
        planes: int,
        at_hand: Bools | None = None,
    ) -> None:
        if at_hand is None:
            at_hand = np.ones(len(parts), np.bool_)
        sizes = layout.hidden, layout.inner, layout.up_first
        code = layout.format.code
        self.native = _native.expert_table(code, *sizes, parts, mults, at_hand, planes)


def moe_all(
    table: ExpertTable, topk_ids: I32, topk_weights: F32, x: F32, limit: float = math.inf
) -> tuple[F32, int]:
    """All experts that the rows of x [T, hidden] name: y [T, hidden], and how many they are.

    An expert is down(silu(gate x) * (up x)). topk_ids, topk_weights [T, k], ids of a row distinct.
    limit: of SwiGLU, as of ops.silu_mul. ValueError: an expert is named that has no address.
    """
    y = np.empty_like(x)
    named = _native.moe_all(table.native, topk_ids, topk_weights, x, limit, y)
    return y, named


def moe_some(
    table: ExpertTable,
    topk_ids: I32,
    topk_weights: F32,
    experts: Sequence[int],
    x: F32,
    y: F32,
    by_pair: bool,
    limit: float = math.inf,
) -> None:
    """Some of the experts that the rows name; the rest as for `moe_all`, whose bits these give.

    by_pair: y[t * k + j] = output of expert topk_ids[t, j], unweighted, for `combine`; y has T * k
    rows or more. Else y [T, hidden] += the weighted outputs; calls in ascending expert id.
    """
    _native.moe_some(table.native, topk_ids, topk_weights, experts, x, limit, y, by_pair)


def combine(pairs: F32, topk_ids: I32, topk_weights: F32, y: F32) -> None:
    """y[t] = sum of topk_weights[t, j] * pairs[t * k + j], in ascending topk_ids[t, j].

    pairs [T * k or more, H], y [T, H].
    """
    _native.combine(pairs, topk_ids, topk_weights, y)


def experts_of(topk_ids: I32, num_experts: int) -> list[int]:
    """The experts that the rows name, ascending. ValueError: out of range, or twice in a row."""
    return _native.experts_of(topk_ids, num_experts)
