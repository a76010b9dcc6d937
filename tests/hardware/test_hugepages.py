from __future__ import annotations

import mmap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from colibri.hardware import hugepages
from colibri.hardware.hugepages import Slabs, mapped


def addresses(arrays: list[hugepages.U8]) -> list[int]:
    return sorted(a.ctypes.data for a in arrays)


def test_arrays_lie_side_by_side_at_whole_pages() -> None:
    slabs = Slabs()
    arrays = [slabs.take(200_000) for _ in range(3)]
    assert [len(a) for a in arrays] == [200_000] * 3
    first, *others = addresses(arrays)
    assert first % 4096 == 0
    assert [place - first for place in others] == [200_704, 401_408]


def test_threads_never_get_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hugepages, "_SLAB_BYTES", 1 << 20)
    slabs = Slabs()
    with ThreadPoolExecutor(4) as pool:
        arrays = list(pool.map(slabs.take, [150_000] * 40))
    for number, array in enumerate(arrays):
        array[:] = number
    assert all((array == number).all() for number, array in enumerate(arrays))


def test_only_what_is_neither_small_nor_large_suits() -> None:
    slabs = Slabs()
    assert [slabs.suits(n) for n in (1000, 128 << 10, 3 << 20, 4 << 20)] == [
        False,
        True,
        True,
        False,
    ]


def test_a_system_that_refuses_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryError, match="5000 bytes: Cannot allocate memory"):
        mapped(5000)


def test_a_system_without_huge_pages_has_memory_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hugepages, "_ADVICE", 9999)  # refused as one that it does not know
    memory = mapped(5000)
    memory[:] = 3
    np.testing.assert_array_equal(memory, np.full(5000, 3, np.uint8))
