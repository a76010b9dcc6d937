import numpy as np
import pytest

from colibri.errors import CapacityError
from colibri.experts.cache.arena import Arena
from colibri.hardware.probe import rss_bytes

MB = 1 << 20


def test_slots_are_aligned_apart_and_keep_their_bytes():
    arena = Arena({4096: 3, 12288: 2})
    slots = arena.take(4096, 3) + arena.take(12288, 2)
    assert len(set(slots)) == 5
    for number, slot in enumerate(slots):
        assert arena.address(slot) % 4096 == 0
        arena.view(slot)[:] = bytes([number]) * len(arena.view(slot))
    for number, slot in enumerate(slots):
        view = arena.view(slot)
        assert bytes(view) == bytes([number]) * len(view)
        assert np.frombuffer(view, np.uint8).ctypes.data == arena.address(slot)
    arena.close()


def test_slots_given_back_are_used_again_before_more_is_mapped():
    arena = Arena({4096: 4})
    slots = arena.take(4096, 4)
    arena.view(slots[2])[:] = b"x" * 4096
    arena.give_back(slots[2:])
    assert arena.nbytes == 4 * 4096
    assert sorted(arena.take(4096, 2)) == sorted(slots[2:])
    assert bytes(arena.view(slots[2])) == bytes(4096)
    more = arena.take(4096, 3)
    assert arena.nbytes == 7 * 4096
    assert not set(more) & set(slots)
    arena.close()


def test_memory_is_taken_when_touched_and_goes_back():
    before = rss_bytes()
    arena = Arena({4 * MB: 32})
    assert rss_bytes() - before < 8 * MB
    slots = arena.take(4 * MB, 32)
    for slot in slots:
        np.frombuffer(arena.view(slot), np.uint8)[:] = 1
    assert rss_bytes() - before > 120 * MB
    arena.give_back(slots[8:])
    assert rss_bytes() - before < 44 * MB
    arena.close()
    assert rss_bytes() - before < 8 * MB


def test_more_than_the_system_has_is_refused_with_the_amount():
    with pytest.raises(CapacityError, match=r"refuses 4611686018\.43 GB"):
        Arena({1 << 32: 1 << 30})
