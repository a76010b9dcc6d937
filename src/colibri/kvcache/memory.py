"""Buffers whose memory is taken as it is used, in huge pages where there is enough of it."""

import math

import numpy as np
from numpy.typing import NDArray

from colibri.hardware.hugepages import mapped

_HUGE_FROM_BYTES = 4 << 20  # below, whole huge pages would be mostly unused


def untouched(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """float32 [shape], contents undefined. A fault a huge page instead of one every 4 kB: a token's
    rows in every layer would cost several."""
    nbytes = 4 * math.prod(shape)
    if nbytes < _HUGE_FROM_BYTES:
        return np.empty(shape, np.float32)
    return mapped(nbytes).view(np.float32).reshape(shape)
