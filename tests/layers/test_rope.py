"""Frequencies against the formulas of transformers, in float64."""

import math

import numpy as np
import pytest

from colibri.layers.rope import rope_from_config


@pytest.mark.parametrize(("theta", "dims"), [(1e4, 128), (1e6, 64), (8e6, 64), (5e5, 16)])
def test_default_frequencies(theta: float, dims: int) -> None:
    rope = rope_from_config(dims, 4096, theta=theta, scaling=None, parameters=None)
    wanted = theta ** (-np.arange(0, dims, 2) / dims)
    np.testing.assert_allclose(rope.inv_freq, wanted, rtol=2e-7)
    assert rope.inv_freq.dtype == np.float32
    assert rope.scale == 1.0


def test_linear_scaling_divides() -> None:
    plain = rope_from_config(32, 4096, theta=1e4, scaling=None, parameters=None)
    linear = rope_from_config(
        32, 4096, theta=1e4, scaling={"type": "linear", "factor": 4.0}, parameters=None
    )
    np.testing.assert_array_equal(linear.inv_freq, plain.inv_freq / np.float32(4))


def test_yarn_keeps_fast_dims_and_stretches_slow_ones() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    plain = rope_from_config(128, 131072, theta=1e6, scaling=None, parameters=None)
    yarn = rope_from_config(128, 131072, theta=1e6, scaling=scaling, parameters=None)
    ratio = yarn.inv_freq / plain.inv_freq
    assert ratio[0] == 1.0
    assert ratio[-1] == pytest.approx(0.25)
    assert (np.diff(ratio) <= 1e-6).all()
    assert yarn.scale == pytest.approx(0.1 * math.log(4.0) + 1)
