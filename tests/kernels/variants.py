"""The same call on every CPU path and with several numbers of threads must give the same bits."""

from collections.abc import Callable

import numpy as np

from colibri import _native
from colibri.kernels import cpu


def bits(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a).view(np.uint32)


def every_way(call: Callable[[], np.ndarray]) -> np.ndarray:
    """The result of `call`, after checking that paths and threads do not matter."""
    before = _native.num_threads()
    results = {}
    try:
        for path in _native.supported_paths():
            for threads in (1, 3):
                cpu.configure(threads, path)
                results[path, threads] = call()
    finally:
        cpu.configure(before)
    first = next(iter(results.values()))
    for way, result in results.items():
        np.testing.assert_array_equal(bits(result), bits(first), err_msg=str(way))
    return first
