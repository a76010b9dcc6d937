"""The routed experts of a layer: SwiGLU experts read in place, wherever their weights lie.

Work is given in pairs (token, expert), ordered by expert. The bits of one expert's output for one
token depend on nothing else, and the sum over experts always runs in ascending expert id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from colibri import _native

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

ExpertScheme = Literal["int4-gs64", "int8-gs64", "bf16", "f16", "f32"]
# (packed, the native module's number)
_CODES = {
    "int4-gs64": (True, 4),
    "int8-gs64": (True, 8),
    "f32": (False, 0),
    "f16": (False, 1),
    "bf16": (False, 2),
}


@dataclass(frozen=True)
class ExpertLayout:
    """Sizes and storage of every expert of a layer.

    Packed: the blocks of gate and up alternate in the record, those of down follow. Dense: gate
    and up [inner, hidden] and down [hidden, inner] row-major, at any alignment.
    """

    scheme: ExpertScheme
    hidden: int
    inner: int


def moe(
    layout: ExpertLayout,
    parts: U64,
    mults: F32,
    pair_start: I64,
    pair_row: I64,
    pair_weight: F32,
    x: F32,
    planes: int,
    y: F32,
    pair_out: I64 | None,
) -> None:
    """Run E experts over their pairs: down(silu(gate x) * (up x)).

    parts [E, 3]: addresses; packed: (record, record, first down block), dense: (gate, up, down).
    The caller keeps that memory alive and unchanged during the call. mults [E, 3]: multipliers of
    gate, up, down. Expert e has pairs pair_start[e] .. pair_start[e+1]; pair p takes row
    pair_row[p] of x [T, hidden]. planes: 1 or 2, of packed experts.

    pair_out None: y [T, hidden] += pair_weight[p] * output, experts in the given order (ascending).
    Else y[pair_out[p]] = output, unweighted, for `combine`; the entries must differ.
    """
    packed, code = _CODES[layout.scheme]
    if x.ndim != 2 or x.shape[1] != layout.hidden:
        raise ValueError(f"x must be [tokens, {layout.hidden}], not {x.shape}")
    _native.moe(
        packed,
        code,
        layout.inner,
        parts,
        mults,
        pair_start,
        pair_row,
        pair_weight,
        x,
        planes,
        y,
        pair_out,
    )


def moe_all(
    layout: ExpertLayout,
    parts: U64,
    mults: F32,
    topk_ids: I32,
    topk_weights: F32,
    x: F32,
    planes: int,
) -> tuple[F32, int]:
    """All experts that the rows name, their memory at hand: y [T, hidden], how many they are.

    parts, mults [num_experts, 3] as for `moe`, 0 where an expert is not at hand (ValueError if it
    is named); topk_ids, topk_weights [T, k], ids of a row distinct. The bits of `moe` in ascending
    expert id from zero, in one call.
    """
    packed, code = _CODES[layout.scheme]
    y = np.empty_like(x)
    named = _native.moe_all(
        packed, code, layout.inner, parts, mults, topk_ids, topk_weights, x, planes, y
    )
    return y, named


def combine(pairs: F32, order: I64, weights: F32, y: F32) -> None:
    """y[t] += weights[t, j] * pairs[order[t, j]] for j ascending, skipping order -1.

    pairs [P, H], order and weights [T, k], y [T, H]. With each token's pairs in ascending expert
    id, the bits are those of the accumulating form of `moe`.
    """
    _native.combine(pairs, order, weights, y)
