"""Buffers whose memory is taken as it is used, in huge pages where there is enough of it."""

import math
import mmap

import numpy as np
from numpy.typing import NDArray

_HUGE_FROM_BYTES = 4 << 20  # below, whole huge pages would be mostly unused
_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)


def untouched(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """float32 [shape], contents undefined. A fault a huge page instead of one every 4 kB: a token's
    rows in every layer would cost several."""
    nbytes = 4 * math.prod(shape)
    if nbytes < _HUGE_FROM_BYTES or _ADVICE is None:
        return np.empty(shape, np.float32)
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(_ADVICE)
    return np.frombuffer(memory, np.float32).reshape(shape)
