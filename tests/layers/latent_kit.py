"""A small layer of latent attention with an indexer, either of the two kinds, and what it means in
NumPy and double precision: keys and values of every head expanded, position after position."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colibri.formats.floats import float_matrix
from colibri.kernels.reference import ops as ref
from colibri.kvcache.sequence import SequenceState
from colibri.layers.indexer import Indexer
from colibri.layers.linear import Linear, Projections
from colibri.layers.mla import LatentAttention
from colibri.layers.norm import LayerNorm, RMSNorm
from colibri.layers.rope import NO_ROPE, Rope
from colibri.layers.step import Step

F32 = NDArray[np.float32]
HIDDEN, HEADS, NOPE, VALUE, LATENT, Q_LATENT = 40, 3, 24, 12, 20, 28
INDEX_HEADS, INDEX_DIM, EPS = 16, 32, 1e-5
NORM = RMSNorm(np.ones(HIDDEN, np.float32), EPS)


@dataclass(frozen=True)
class Kind:
    name: str
    rope_dim: int
    pool: int | None
    interleaved: bool = True  # the indexer's rope; that of attention always is

    @property
    def rope(self) -> Rope:
        if not self.rope_dim:
            return NO_ROPE
        return Rope((0.5 ** np.arange(self.rope_dim // 2)).astype(np.float32), interleaved=True)

    @property
    def index_rope(self) -> Rope:
        return replace(self.rope, interleaved=self.interleaved)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {
            "q_a": (Q_LATENT, HIDDEN),
            "kv_a": (LATENT + self.rope_dim, HIDDEN),
            "q_b": (HEADS * (NOPE + self.rope_dim), Q_LATENT),
            "kv_b": (HEADS * (NOPE + VALUE), LATENT),
            "o": (HIDDEN, HEADS * VALUE),
            "wq_b": (INDEX_HEADS * INDEX_DIM, Q_LATENT),
            "wk": (INDEX_DIM, HIDDEN),
            "weights": (INDEX_HEADS, HIDDEN),
        }
        if self.pool:
            shapes["gate"] = (INDEX_DIM, HIDDEN)
        return shapes

    def drawn(self) -> dict[str, F32]:
        rng = np.random.default_rng(3)
        w = {
            name: rng.standard_normal(shape, np.float32) * np.float32(2 * shape[-1] ** -0.5)
            for name, shape in self.shapes.items()
        }
        vectors = {"q_norm": Q_LATENT, "kv_norm": LATENT, "k_norm": INDEX_DIM, "k_bias": INDEX_DIM}
        w |= {name: 1 + rng.standard_normal(n, np.float32) / 4 for name, n in vectors.items()}
        return w | {"ape": rng.standard_normal((self.pool or 1, INDEX_DIM), np.float32)}


KINDS = (Kind("glm_moe_dsa", 8, None), Kind("glm-5", 8, None, False), Kind("glm5_next", 0, 4))


def layer(kind: Kind, topk: int, *, indexed: bool = True, number: int = 0) -> LatentAttention:
    w = kind.drawn()
    inputs = ["q_a", "kv_a", *(["wk"] if indexed else [])]
    inputs += ["gate"] if indexed and kind.pool else []
    heads = w["kv_b"].reshape(HEADS, NOPE + VALUE, LATENT)
    key = heads[:, :NOPE].transpose(0, 2, 1).reshape(-1, NOPE)
    return LatentAttention(
        layer=number,
        heads=HEADS,
        nope_dim=NOPE,
        rope_dim=kind.rope_dim,
        value_dim=VALUE,
        latent_dim=LATENT,
        input_proj=Projections(*(linear(w[name]) for name in inputs)),
        q_a_norm=RMSNorm(w["q_norm"], EPS),
        q_b_proj=Projections(linear(w["q_b"])),
        kv_a_norm=RMSNorm(w["kv_norm"], EPS),
        kv_b_key=float_matrix(np.ascontiguousarray(key)),
        kv_b_value=float_matrix(np.ascontiguousarray(heads[:, NOPE:].reshape(-1, LATENT))),
        o_proj=linear(w["o"]),
        rope=kind.rope,
        planes=2,
        indexer=indexer(kind, w, topk) if indexed else None,
    )


def indexer(kind: Kind, w: dict[str, F32], topk: int) -> Indexer:
    return Indexer(
        layer=0,
        heads=INDEX_HEADS,
        dim=INDEX_DIM,
        topk=topk,
        wq_b=linear(w["wq_b"]),
        k_norm=LayerNorm(w["k_norm"], w["k_bias"], 1e-6),
        weights_proj=linear(w["weights"]),
        rope=kind.index_rope,
        pool_bias=w["ape"] if kind.pool else None,
    )


def linear(w: F32) -> Linear:
    return Linear(float_matrix(w))


def step_of(layers: Sequence[LatentAttention], parts: Sequence[tuple[SequenceState, int]]) -> Step:
    """The next rows of each state, so many; ids do not matter here."""
    step = Step.of([(state, [0] * rows) for state, rows in parts])
    step.rope = layers[0].rope.tables(step.positions)
    step.selection = [None] * len(parts)
    return step


def advance(layer: LatentAttention, state: SequenceState, x: F32) -> F32:
    return layer(x.copy(), None, NORM, step_of([layer], [(state, len(x))]))


def new_state(layer: LatentAttention, capacity: int) -> SequenceState:
    return SequenceState([layer.new_cache(capacity)])


class Twin:
    """The sheets' formulas, for one text from its beginning."""

    def __init__(self, kind: Kind, topk: int) -> None:
        self.kind, self.topk, self.w = kind, topk, kind.drawn()

    def __call__(self, x: F32) -> tuple[Any, list[list[int]]]:
        """The layer's output [rows, hidden], and the positions that each row sees."""
        w, n, scale = self.w, len(x), (NOPE + self.kind.rope_dim) ** -0.5
        h = ref.rms_norm(x, NORM.weight, EPS).astype(np.float64)
        latent_q = rms(h @ w["q_a"].T, w["q_norm"])
        q = (latent_q @ w["q_b"].T).reshape(n, HEADS, -1)
        kv = h @ w["kv_a"].T
        q[..., NOPE:] = self._rotated(q[..., NOPE:])
        turned = self._rotated(kv[:, None, LATENT:])[:, 0]
        heads = (rms(kv[:, :LATENT], w["kv_norm"]) @ w["kv_b"].T).reshape(n, HEADS, NOPE + VALUE)
        seen = self._seen(h, latent_q)
        out = np.empty((n, HEADS, VALUE))
        for t, at in enumerate(seen):
            scores = np.einsum("hd,shd->hs", q[t, :, :NOPE], heads[at, :, :NOPE])
            scores = (scores + q[t, :, NOPE:] @ turned[at].T) * scale
            p = np.exp(scores - scores.max(-1, keepdims=True))
            p /= p.sum(-1, keepdims=True)
            out[t] = np.einsum("hs,shv->hv", p, heads[at, :, NOPE:])
        return out.reshape(n, -1) @ w["o"].T, seen

    def _seen(self, h: Any, latent_q: Any) -> list[list[int]]:
        w, n, pool = self.w, len(h), self.kind.pool or 1
        k = h @ w["wk"].T
        k = (k - k.mean(-1, keepdims=True)) / np.sqrt(k.var(-1, keepdims=True) + 1e-6)
        interleaved = self.kind.interleaved
        k = self._rotated((k * w["k_norm"] + w["k_bias"])[:, None], interleaved)[:, 0]
        q = (latent_q @ w["wq_b"].T).reshape(n, INDEX_HEADS, INDEX_DIM)
        q = self._rotated(q, interleaved)
        weight = h @ w["weights"].T * INDEX_HEADS**-0.5
        if self.kind.pool:
            gate, whole = h @ w["gate"].T, n // pool * pool
            logits = np.exp(gate[:whole].reshape(-1, pool, INDEX_DIM) + w["ape"])
            share = logits / logits.sum(1, keepdims=True)
            k = (share * k[:whole].reshape(-1, pool, INDEX_DIM)).sum(1)
        seen = []
        for t in range(n):
            complete = (t + 1) // pool
            score = weight[t] @ np.maximum(q[t] @ k[:complete].T * INDEX_DIM**-0.5, 0)
            best = np.sort(np.argsort(-score, kind="stable")[: self.topk // pool])
            tail = range(complete * pool, t + 1)
            seen.append([p * pool + j for p in best.tolist() for j in range(pool)] + [*tail])
        return seen

    def _rotated(self, x: Any, interleaved: bool = True) -> Any:
        """x [rows, heads, dim], its first dimensions turned by the positions 0, 1, ..."""
        x = x.copy()
        cos, sin = ref.rope_table(np.arange(len(x)), self.kind.rope.inv_freq)
        ref.apply_rope(x, cos, sin, 0, interleaved)
        return x


def rms(x: Any, w: F32) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w
