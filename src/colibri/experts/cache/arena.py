"""The memory that experts are staged in: page-aligned anonymous bytes, cut into slots."""

import mmap
from collections.abc import Mapping

import numpy as np

from colibri.errors import CapacityError
from colibri.experts.base import PAGE

_ADVICE_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)
_ADVICE_SMALL = getattr(mmap, "MADV_NOHUGEPAGE", None)


class Extent:
    """One anonymous mapping. Its pages cost memory from their first touch until discarded."""

    def __init__(self, nbytes: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        try:
            self._map = mmap.mmap(-1, nbytes, flags=flags)
        except OSError as error:
            raise CapacityError(
                f"the system refuses {nbytes / 1e9:.2f} GB for the expert cache: {error.strerror}; "
                "lower --ram or --cache-experts"
            ) from error
        self.nbytes = nbytes
        self.view = memoryview(self._map)
        self.address = np.frombuffer(self._map, np.uint8).ctypes.data
        self._advise(_ADVICE_HUGE, 0, nbytes)

    def discard(self, offset: int, nbytes: int) -> None:
        # Without the second advice the kernel may fill the hole again to make a huge page of it.
        self._map.madvise(mmap.MADV_DONTNEED, offset, nbytes)
        self._advise(_ADVICE_SMALL, offset, nbytes)

    def _advise(self, advice: int | None, offset: int, nbytes: int) -> None:
        if advice is None:
            return
        try:
            self._map.madvise(advice, offset, nbytes)
        except OSError:  # a kernel without huge pages: only a hint is lost
            return


class Arena:
    """Slots by size class. A slot is a number; it keeps its address for the arena's life.

    slots: how many slots of each size (bytes, a multiple of the page size) to map at first.
    Raises CapacityError when the system does not give the memory.
    """

    def __init__(self, slots: Mapping[int, int]) -> None:
        self._places: list[tuple[Extent, int, int]] = []  # extent, offset, size of each slot
        self._free: dict[int, list[int]] = {}
        self._extents: list[Extent] = []
        self._map(slots)

    @property
    def nbytes(self) -> int:
        """Address space mapped: the most memory the slots can ever take."""
        return sum(extent.nbytes for extent in self._extents)

    def take(self, size: int, count: int) -> list[int]:
        """`count` free slots of a size; maps more memory if the class has too few."""
        missing = count - len(self._free.get(size, ()))
        if missing > 0:
            self._map({size: missing})
        free = self._free.setdefault(size, [])
        return [free.pop() for _ in range(count)]

    def give_back(self, slots: list[int]) -> None:
        """Returns slots, and their memory to the system. The caller has no use for them left."""
        for slot in slots:
            extent, offset, size = self._places[slot]
            extent.discard(offset, size)
            self._free[size].append(slot)

    def address(self, slot: int) -> int:
        extent, offset, _ = self._places[slot]
        return extent.address + offset

    def view(self, slot: int) -> memoryview:
        extent, offset, size = self._places[slot]
        return extent.view[offset : offset + size]

    def close(self) -> None:
        """Gives all memory back; views that are still held read as zeros."""
        for extent in self._extents:
            extent.discard(0, extent.nbytes)
        self._extents.clear()
        self._places.clear()
        self._free.clear()

    def _map(self, slots: Mapping[int, int]) -> None:
        total = sum(size * count for size, count in slots.items())
        if total == 0:
            return
        assert all(size % PAGE == 0 for size in slots)
        extent = Extent(total)
        self._extents.append(extent)
        offset = 0
        for size, count in slots.items():
            first = len(self._places)
            self._places += [(extent, offset + i * size, size) for i in range(count)]
            self._free.setdefault(size, []).extend(range(first + count - 1, first - 1, -1))
            offset += size * count
