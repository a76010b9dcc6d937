"""Runs a kernel on every CPU path and thread count, and holds the results to one set of bits."""

from collections.abc import Callable

import numpy as np

from colibri import _native


def bits(x):
    """Integers to compare: equal numbers of other bits (0 and -0) are not equal, NaN equals NaN."""
    if x.dtype.kind != "f":
        return x
    quiet = np.where(np.isnan(x), np.array(np.nan, x.dtype), x)
    return quiet.view({4: np.uint32, 8: np.uint64}[x.dtype.itemsize])


def assert_same(a, b) -> None:
    if isinstance(a, tuple):
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
        return
    np.testing.assert_array_equal(bits(a), bits(b))


def everywhere(kernel: Callable, threads: tuple[int, ...] = (1, 3)):
    """kernel() on every path and thread count, checked to be one result, which is returned."""
    path, count = _native.active_path(), _native.num_threads()
    result = None
    try:
        for name in _native.supported_paths():
            _native.use_path(name)
            for n in threads:
                _native.set_num_threads(n)
                again = kernel()
                if result is None:
                    result = again
                assert_same(result, again)
    finally:
        _native.use_path(path)
        _native.set_num_threads(count)
    return result


def normal(seed: int, *shape: int, scale: float = 1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)
