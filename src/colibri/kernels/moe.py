"""The routed experts of a layer: SwiGLU experts read in place, wherever their weights lie.

The bits of one expert's output for one token depend on nothing else, and the sum over a token's
experts always runs in ascending expert id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from colibri import _native

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]

ExpertScheme = Literal["int3-gs64", "int4-gs64", "int8-gs64", "bf16", "f16", "f32"]
# (packed, the native module's number)
_CODES = {
    "int3-gs64": (True, 3),
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


def moe_all(
    layout: ExpertLayout,
    parts: U64,
    mults: F32,
    topk_ids: I32,
    topk_weights: F32,
    x: F32,
    planes: int,
    limit: float = math.inf,
) -> tuple[F32, int]:
    """All experts that the rows of x [T, hidden] name: y [T, hidden], and how many they are.

    An expert is down(silu(gate x) * (up x)). parts [num_experts, 3]: addresses; packed: (record,
    record, first down block), dense: (gate, up, down); 0 where an expert is not at hand (ValueError
    if it is named). The caller keeps that memory alive and unchanged during the call. mults
    [num_experts, 3]: multipliers of gate, up, down. topk_ids, topk_weights [T, k], ids of a row
    distinct. planes: 1 or 2, of packed experts. limit: of SwiGLU, as of ops.silu_mul.
    """
    packed, code = _CODES[layout.scheme]
    _check(layout, x)
    y = np.empty_like(x)
    named = _native.moe_all(
        packed, code, layout.inner, limit, parts, mults, topk_ids, topk_weights, x, planes, y
    )
    return y, named


def moe_some(
    layout: ExpertLayout,
    parts: U64,
    mults: F32,
    topk_ids: I32,
    topk_weights: F32,
    experts: Sequence[int],
    x: F32,
    planes: int,
    y: F32,
    by_pair: bool,
    limit: float = math.inf,
) -> None:
    """Some of the experts that the rows name; the rest as for `moe_all`, whose bits these give.

    by_pair: y[t * k + j] = output of expert topk_ids[t, j], unweighted, for `combine`; y has T * k
    rows or more. Else y [T, hidden] += the weighted outputs; calls in ascending expert id.
    """
    packed, code = _CODES[layout.scheme]
    _check(layout, x)
    tables = parts, mults, topk_ids, topk_weights
    _native.moe_some(packed, code, layout.inner, limit, *tables, experts, x, planes, y, by_pair)


def combine(pairs: F32, topk_ids: I32, topk_weights: F32, y: F32) -> None:
    """y[t] = sum of topk_weights[t, j] * pairs[t * k + j], in ascending topk_ids[t, j].

    pairs [T * k or more, H], y [T, H].
    """
    _native.combine(pairs, topk_ids, topk_weights, y)


def experts_of(topk_ids: I32, num_experts: int) -> list[int]:
    """The experts that the rows name, ascending. ValueError: out of range, or twice in a row."""
    return _native.experts_of(topk_ids, num_experts)


def _check(layout: ExpertLayout, x: F32) -> None:
    if x.ndim != 2 or x.shape[1] != layout.hidden:
        raise ValueError(f"x must be [tokens, {layout.hidden}], not {x.shape}")
