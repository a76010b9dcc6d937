"""Memory in huge pages: a core finds few small pages without a walk through the tables."""

from __future__ import annotations

import contextlib
import mmap
import threading

import numpy as np
from numpy.typing import NDArray

_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)
_PLACE = 4096  # arrays of a slab begin at multiples of it
_SLAB_BYTES = 64 << 20
_LEAST_BYTES = 128 << 10  # what is smaller is read too quickly to matter
_MOST_BYTES = 4 << 20  # NumPy itself asks for huge pages from here on

U8 = NDArray[np.uint8]


def mapped(nbytes: int) -> U8:
    """Fresh bytes in a mapping of their own, taken from the system as they are touched.

    Raises MemoryError if the system refuses.
    """
    try:
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{nbytes} bytes: {error.strerror}") from error
    if _ADVICE is not None:
        with contextlib.suppress(OSError):  # the system has none
            memory.madvise(_ADVICE)
    return np.frombuffer(memory, np.uint8)


class Slabs:
    """Places side by side for arrays that stay, each too small for a huge page of its own.

    A slab is given back with the last of its arrays. May be used by many threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rest: U8 = np.empty(0, np.uint8)

    def suits(self, nbytes: int) -> bool:
        return _LEAST_BYTES <= nbytes < _MOST_BYTES

    def take(self, nbytes: int) -> U8:
        """nbytes that begin at a page, contents undefined. Raises MemoryError."""
        room = nbytes + -nbytes % _PLACE
        with self._lock:
            if room > len(self._rest):
                self._rest = mapped(max(_SLAB_BYTES, room))
            place, self._rest = self._rest[:nbytes], self._rest[room:]
        return place
