"""KDA as a layer: projections, both narrow gates and the rule, against the NumPy twin."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from colibri.formats.floats import float_matrix
from colibri.kernels.delta import DeltaRule, DeltaShape
from colibri.kernels.reference import delta as ref
from colibri.kvcache.sequence import SequenceState
from colibri.layers.delta import DeltaCore, KimiDeltaAttention
from colibri.layers.linear import Linear, Projections
from colibri.layers.norm import RMSNorm
from colibri.layers.step import Step

F32 = NDArray[np.float32]
HIDDEN, HEADS, DIM, EPS = 40, 3, 24, 1e-5
WIDTH = HEADS * DIM
SHAPE = DeltaShape(HEADS, HEADS, DIM, DIM)
ROWS = 11


def drawn() -> dict[str, F32]:
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        **{part: (WIDTH, HIDDEN) for part in "qkv"},
        **{"b": (HEADS, HIDDEN), "f_a": (DIM, HIDDEN), "g_a": (DIM, HIDDEN)},
        **{"f_b": (WIDTH, DIM), "g_b": (WIDTH, DIM), "o": (HIDDEN, WIDTH)},
    }
    w = {
        name: rng.standard_normal(shape, np.float32) * np.float32(shape[-1] ** -0.5)
        for name, shape in shapes.items()
    }
    vectors = {"conv": (4, 3 * WIDTH), "A_log": (HEADS,), "dt": (WIDTH,), "norm": (DIM,)}
    return w | {name: rng.standard_normal(n, np.float32) for name, n in vectors.items()}


W = drawn()
X = np.random.default_rng(1).standard_normal((ROWS, HIDDEN), np.float32)
NORM = RMSNorm(np.ones(HIDDEN, np.float32), EPS)
A_LOG = np.repeat(W["A_log"], DIM)


def kda(lower: float | None) -> KimiDeltaAttention:
    def linear(name: str) -> Linear:
        return Linear(float_matrix(W[name]))

    rule = DeltaRule(SHAPE, W["conv"], A_LOG, W["dt"], W["norm"], eps=EPS, silu=False, lower=lower)
    inputs = Projections(*map(linear, ("q", "k", "v", "b", "f_a", "g_a")))
    return KimiDeltaAttention(DeltaCore(0, rule), inputs, linear("f_b"), linear("g_b"), linear("o"))


def advance(layer: KimiDeltaAttention, state: SequenceState, x: F32) -> F32:
    return layer(x.copy(), None, NORM, Step.of([(state, [0] * len(x))]))


@pytest.mark.parametrize("lower", [-5.0, None])
def test_kda_matches_the_reference(lower: float | None) -> None:
    layer = kda(lower)
    got = advance(layer, SequenceState([layer.new_cache(ROWS)]), X)
    h = NORM(X)
    qkv = np.concatenate([h @ W[part].T for part in "qkv"], 1)
    twin = ref.DeltaRule(SHAPE, W["conv"], A_LOG, W["dt"], W["norm"], EPS, False, lower)
    gate, z = (h @ W[f"{g}_a"].T @ W[f"{g}_b"].T for g in "fg")
    empty: tuple[Any, Any] = np.zeros(SHAPE.window_shape), np.zeros(SHAPE.matrix_shape)
    out, _, _ = twin(qkv, gate, h @ W["b"].T, z, *empty)
    np.testing.assert_allclose(got, out @ W["o"].T, rtol=1e-4, atol=1e-4)


def test_kda_token_by_token_and_restored_is_the_whole() -> None:
    layer = kda(-5.0)
    whole = advance(layer, SequenceState([layer.new_cache(ROWS)]), X)
    state = SequenceState([layer.new_cache(ROWS)])
    rows = []
    for i in range(ROWS):
        checkpoint = state.checkpoint()
        advance(layer, state, X[::-1][:3])  # a draft that is rejected
        state.restore(checkpoint)
        rows.append(advance(layer, state, X[i : i + 1]))
    assert state.length == ROWS
    np.testing.assert_array_equal(np.concatenate(rows).view(np.uint32), whole.view(np.uint32))
