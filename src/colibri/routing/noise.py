"""Random numbers for routing that depend on (seed, layer, position, expert) and nothing else: what
else is in the batch, how a prompt was cut and which machine it is change nothing."""

import math

import numpy as np
from numpy.typing import NDArray

from colibri.routing.base import F32

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]

CLAMP = 1e-6  # no uniform number is nearer to 0 or 1: noise stays between -2.7 and 13.9
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TERMS = 12  # of the series below: right to about an ulp


class Noise:
    """The noise of one model; `positions` are those of the rows of the step at work."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.positions: I64 = np.empty(0, np.int64)

    def tell(self, positions: I64) -> None:
        """A step begins: [rows], each row's place in its sequence."""
        self.positions = positions

    def gumbel(self, layer: int, experts: int) -> F32:
        """[rows, experts]: -log(-log u), u uniform."""
        u = np.clip(self.uniform(layer, experts), CLAMP, 1 - CLAMP)
        return (-log(-log(u))).astype(np.float32)

    def uniform(self, layer: int, experts: int) -> F64:
        """[rows, experts], from 0 to below 1: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), one
        stream in the next."""
        seed, first, at = (np.array([n], np.uint64) for n in (self._seed, 0, layer))
        of_layer = _advanced(_advanced(seed, first), at)
        of_rows = _advanced(of_layer, self.positions.astype(np.uint64))
        cells = _advanced(of_rows[:, None], np.arange(experts, dtype=np.uint64))
        return (cells >> np.uint64(11)).astype(np.float64) * 2.0**-53


def log(x: F64) -> F64:
    """The natural logarithm of positive numbers, with the same bits everywhere: NumPy's own takes
    whatever the machine has."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < math.sqrt(0.5)
    mantissa = np.where(low, 2 * mantissa, mantissa)
    s = (mantissa - 1) / (mantissa + 1)
    square, series = s * s, np.zeros_like(s)
    for n in reversed(range(_TERMS)):
        series = series * square + 1 / (2 * n + 1)
    result: F64 = (exponent - low) * math.log(2) + 2 * s * series
    return result


def _advanced(state: U64, steps: U64) -> U64:
    """What the generator started at `state` gives after `steps` others; numbers wrap."""
    z: U64 = state + (steps + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
