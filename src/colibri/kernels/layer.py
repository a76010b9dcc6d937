"""The halves of a layer in one native call each: the residual add and norm, and what follows them.

Every call gives the bits of the single ones that it stands for. In all of them x [rows, hidden] is
the residual stream and y [rows, hidden] what is still to be added to it, or None: x += y in place,
then y (fresh memory, if there was none) becomes the norm of x, or what the call says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from colibri import _native
from colibri.formats.base import Matrix
from colibri.kernels.moe import ExpertTable
from colibri.kernels.routing import Choice

F32 = npt.NDArray[np.float32]
Norm = _native.Norm
RouteRule = _native.RouteRule
KeyValues = _native.KeyValues
StepRows = _native.StepRows
GivenChoices = _native.GivenChoices
Moment = tuple[int, int]  # as _native.moment()

norm = _native.norm  # (weight [n], eps): an RMS norm over rows of n
# (keys, values): the buffers [capacity, kv_heads, dim] of a cache, and its `length`.
key_values = _native.key_values
# (positions [rows], stops, cos, sin [rows, half], caches): the rows of a step, sequence after
# sequence, each up to its stop and at consecutive positions; each one's caches by layer.
step_rows = _native.step_rows
# (rule, given): choices that come from a table, row after row; weights are the rule's unless given.
given_rule = _native.given_rule


class Projector:
    """Matrices [N_i, K] of one input, each with a bias [N_i] or None, in one call."""

    def __init__(
        self, ws: Sequence[Matrix], biases: Sequence[F32 | None] | None = None, planes: int = 2
    ) -> None:
        self.widths = [w.rows for w in ws]
        biases = [None] * len(ws) if biases is None else biases
        self.native = _native.projections([w.native for w in ws], biases, planes)

    def __call__(self, x: F32) -> list[F32]:
        """x [T, K] -> [T, N_i] each: the bits of `matmul`, then the bias added."""
        ys = self._outputs(len(x))
        _native.project(x, self.native, ys)
        return ys

    def normed(self, x: F32, y: F32 | None, norm: Norm) -> tuple[F32, list[F32]]:
        """The norm of x + y, and its products."""
        normed = np.empty_like(x) if y is None else y
        ys = self._outputs(len(x))
        _native.norm_project(x, normed, y is not None, norm, self.native, ys)
        return normed, ys

    def _outputs(self, rows: int) -> list[F32]:
        return [np.empty((rows, width), np.float32) for width in self.widths]


def swiglu(x: F32, gate_up: Projector, down: Projector, limit: float = math.inf) -> F32:
    """down(silu(gate x) * up x), [T, rows of down]; `limit` as of ops.silu_mul."""
    out = np.empty((len(x), down.widths[0]), np.float32)
    _native.swiglu(x, gate_up.native, down.native, limit, out)
    return out


class GroupedAttention:
    """Grouped-query attention over the caches of a step's sequences, projections included.

    q, k, v are projected; normed over the whole row, clipped to +-clip, or clipped and then normed
    over each head (`norm_per_head`); q and k rotated; k and v appended to their cache; then each
    row sees the keys up to its own, of them the last `window`. The caches are those of `layer`.
    `gated`: q's projection gives each head its query, then a gate; what the head attends to is
    multiplied by sigmoid(gate).
    """

    def __init__(
        self,
        qkv: Projector,
        o_proj: Projector,
        *,
        layer: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        q_norm: Norm | None = None,
        k_norm: Norm | None = None,
        norm_per_head: bool = False,
        clip: float | None = None,
        window: int | None = None,
        interleaved: bool = False,
        gated: bool = False,
    ) -> None:
        self.native = _native.attention(
            layer,
            qkv.native,
            o_proj.native,
            heads,
            kv_heads,
            head_dim,
            q_norm,
            k_norm,
            norm_per_head,
            math.inf if clip is None else clip,
            1 << 62 if window is None else window,
            1 / math.sqrt(head_dim),
            interleaved,
            gated,
        )

    def __call__(self, x: F32, y: F32 | None, norm: Norm, rows: StepRows) -> F32:
        """y becomes the output [rows, hidden] and is returned. IndexError: a cache is full."""
        out = np.empty_like(x) if y is None else y
        _native.grouped_attention(x, out, y is not None, norm, self.native, rows)
        return out


def softmax_rule(experts: int, k: int, renormalize: bool) -> RouteRule:
    """That of `softmax_topk`."""
    return _native.route_rule(experts, k, None, 1, 1, renormalize, 1.0)


def sigmoid_rule(
    bias: F32, k: int, n_group: int, topk_group: int, renormalize: bool, scale: float
) -> RouteRule:
    """That of `sigmoid_topk`. ValueError: a bias is not finite."""
    return _native.route_rule(len(bias), k, bias, n_group, topk_group, renormalize, scale)


def norm_route(
    x: F32, y: F32 | None, norm: Norm, gate: Projector, rule: RouteRule, k: int
) -> tuple[F32, Choice]:
    """The norm of x + y, and its choice of k experts by router logits gate(norm).

    ValueError: a logit is not finite (the row is named).
    """
    normed = np.empty_like(x) if y is None else y
    ids, weights = np.empty((len(x), k), np.int32), np.empty((len(x), k), np.float32)
    _native.norm_route(x, normed, y is not None, norm, gate.native, rule, ids, weights)
    return normed, (ids, weights)


class RoutedExperts:
    """A layer's second half: router and experts."""

    def __init__(
        self, gate: Projector, rule: RouteRule, k: int, table: ExpertTable, limit: float
    ) -> None:
        self.native = _native.routed_experts(gate.native, rule, table.native, limit)
        self.k = k

    def __call__(self, x: F32, y: F32 | None, norm: Norm) -> tuple[F32, Choice, F32, int, Moment]:
        """The norm of x + y and its choice, as `norm_route`; and if all experts chosen are at hand
        what `moe_all` gives for them: their sum, how many they are, and when they were chosen.

        How many is 0 if an expert was not at hand; there is no sum then.
        """
        rows, k = len(x), self.k
        normed, out = np.empty_like(x) if y is None else y, np.empty(x.shape, np.float32)
        ids, weights = np.empty((rows, k), np.int32), np.empty((rows, k), np.float32)
        named, chosen = _native.norm_moe(
            x, normed, y is not None, norm, self.native, ids, weights, out
        )
        return normed, (ids, weights), out, named, chosen
