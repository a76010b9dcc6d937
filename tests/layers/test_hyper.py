"""A layer with a residual of several streams: each half reads a mixture and adds to all."""

from typing import Any

import numpy as np
import pytest

from colibri.formats.floats import float_matrix
from colibri.kernels.hyper import HyperMix
from colibri.kernels.reference import hyper as ref
from colibri.layers.hyper import HyperLayer, Streams
from colibri.layers.lookahead import Lookahead, Target
from colibri.layers.norm import RMSNorm
from colibri.layers.step import Step

STREAMS, HIDDEN, ROWS = 4, 24, 3


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mixes(seed: int) -> tuple[HyperMix, ref.HyperMix]:
    count = (2 + STREAMS) * STREAMS
    weights = normal(seed, count, STREAMS * HIDDEN), normal(seed + 1, count), normal(seed + 2, 3)
    switches: dict[str, Any] = {"streams": STREAMS, "iterations": 20, "norm_eps": 1e-5, "eps": 1e-6}
    mix = HyperMix(float_matrix(weights[0]), *weights[1:], **switches)
    return mix, ref.HyperMix(*weights, **switches)


class Half:
    """Says what it was given, and makes something of it."""

    def __init__(self, seed: int) -> None:
        self.w = normal(seed, HIDDEN, HIDDEN)

    def __call__(self, x: Any, y: Any, norm: RMSNorm, step: Step) -> Any:
        assert y is None
        if step.guess is not None and step.shares is not None:
            step.guess(0, self.made(norm(x)))
        return self.made(norm(x))

    def made(self, x: Any) -> Any:
        return x @ self.w


@pytest.fixture
def layer() -> Any:
    parts = (RMSNorm(normal(1, HIDDEN), 1e-5), Half(2), RMSNorm(normal(3, HIDDEN), 1e-5), Half(4))
    (first, twin), (second, other) = mixes(10), mixes(20)
    return HyperLayer(*parts, mixer_mix=first, mlp_mix=second), (twin, other)


def step_of(rows: int) -> Step:
    return Step(np.zeros(rows, np.int64), np.arange(rows), [])


def test_a_layer_is_two_halves_around_the_twin(layer: Any) -> None:
    made, twins = layer
    x = Streams(STREAMS).begin(normal(5, ROWS, HIDDEN))
    assert (x == x[:, :1]).all()
    x += normal(6, *x.shape)  # streams are alike only before the first layer
    want = x.astype(np.float64)
    assert made(x, None, step_of(ROWS)) is None
    for twin, norm, half in zip(
        twins, (made.input_norm, made.post_norm), (made.mixer, made.mlp), strict=True
    ):
        h, out, mixed = twin.enter(want.astype(np.float32))
        y = half.made(norm(h.astype(np.float32)))
        want = mixed + out[:, :, None] * y[:, None]
    np.testing.assert_allclose(x, want, rtol=1e-4, atol=1e-4)
    last = RMSNorm(normal(7, HIDDEN), 1e-5)
    ends = Streams(STREAMS).end(x, None, last)
    np.testing.assert_allclose(ends, last(x.mean(1)), rtol=1e-5, atol=1e-5)


def test_a_guess_sees_what_the_next_router_would_if_the_rest_added_nothing(layer: Any) -> None:
    """The shared expert is all that this half makes: then the guess is what comes."""
    made, _ = layer
    seen: list[Any] = []

    class Says:
        layer = 1
        router: Any

        def gate(self, state: Any) -> Any:
            seen.append(state)
            return state

        def guess(self, logits: Any) -> Any:
            raise ValueError("none is needed")

    class Experts:
        def complete(self, layer: int) -> bool:
            return False

        def expire(self) -> None:
            pass

    says: Any = Says()
    says.router = says
    ahead = Lookahead(Experts(), {0: [Target(made.mlp_input, says)]}, 1)  # type: ignore[arg-type]
    x, step = Streams(STREAMS).begin(normal(5, ROWS, HIDDEN)), step_of(ROWS)
    with ahead.step(step, x):
        made(x, None, step)
    before = x.copy()
    np.testing.assert_allclose(seen[0], made.mlp_input(x), rtol=1e-5, atol=1e-5)
    assert (x == before).all()  # looking changes nothing
