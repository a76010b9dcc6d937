"""Comparing logits as the promise does: bit by bit."""

import numpy as np
from numpy.typing import NDArray


def assert_same_bits(got: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert got.dtype == expected.dtype == np.float32
    differing = got.view(np.uint32) != expected.view(np.uint32)
    largest = np.abs(got - expected).max()
    assert not differing.any(), (
        f"{differing.sum()} of {differing.size} logits differ, by up to {largest}"
    )
