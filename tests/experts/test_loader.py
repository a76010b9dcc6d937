"""The reader threads alone, under load: each read in its own slot, all accounted for."""

import threading

import numpy as np
import pytest

from colibri.container.layerexperts import Span
from colibri.experts.arena import Arena
from colibri.experts.loader import Job, Loader

from .faults import Faulty, io_error, slow

PAGE = 4096
BYTES = 3 * PAGE


@pytest.fixture
def file(tmp_path):
    """Experts of three pages whose every 4 bytes are the expert's number."""
    path = tmp_path / "experts"
    path.write_bytes(np.repeat(np.arange(40, dtype=np.uint32), BYTES // 4).tobytes())
    return path


def job(file, expert, view):
    def finish(slot):
        values = np.frombuffer(slot, np.uint32)
        assert (values == expert).all(), (expert, values)
        return 1.0, 1.0, 1.0

    return Job(0, expert, (Span(file, expert * BYTES, BYTES, 0, BYTES),), view, finish)


def collect(loader, count):
    jobs = []
    while len(jobs) < count:
        jobs += loader.collect(1.0)
    return jobs


@pytest.mark.parametrize("seed", range(3))
def test_stress_with_recycled_slots(file, seed):
    rng = np.random.default_rng(seed)
    arena = Arena({BYTES: 5})
    free = arena.take(BYTES, 5)
    fault = Faulty(lambda n: io_error(n) if n % 7 == 0 else slow(n))
    loader = Loader(3, fault)
    slot_of, submitted, done = {}, 0, 0
    while done < 400:
        while free and submitted < 400:
            slot = free.pop()
            slot_of[submitted] = slot
            arena.view(slot)[:] = bytes(BYTES)
            work = job(file, int(rng.integers(40)), arena.view(slot))
            work.layer = submitted
            loader.submit(work)
            submitted += 1
        for finished in loader.collect(1.0):
            if finished.error is not None:
                raise finished.error
            assert finished.nbytes == BYTES
            slot = slot_of.pop(finished.layer)
            assert (np.frombuffer(arena.view(slot), np.uint32) == finished.expert).all()
            free.append(slot)
            done += 1
    assert not slot_of
    assert loader.direct in (True, False)
    loader.close()
    arena.close()


def test_reads_run_side_by_side_but_no_more_than_the_readers(file):
    running, most = 0, 0
    lock = threading.Lock()
    meeting = threading.Barrier(3, timeout=5)

    def meet(n):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        meeting.wait()
        with lock:
            running -= 1

    loader = Loader(3, Faulty(meet))
    arena = Arena({BYTES: 9})
    for expert, slot in enumerate(arena.take(BYTES, 9)):
        loader.submit(job(file, expert, arena.view(slot)))
    assert len(collect(loader, 9)) == 9
    assert most == 3
    loader.close()


def test_quiesce_forgets_what_has_not_begun_and_waits_for_the_rest(file):
    begun, gate = threading.Event(), threading.Event()

    def hold(n):
        begun.set()
        assert gate.wait(5)

    arena = Arena({BYTES: 6})
    loader = Loader(1, Faulty(hold))
    for expert, slot in enumerate(arena.take(BYTES, 6)):
        loader.submit(job(file, expert, arena.view(slot)))
    assert begun.wait(5)
    assert loader.collect(0) == []
    threading.Timer(0.05, gate.set).start()
    assert [finished.expert for finished in loader.quiesce()] == [0]
    assert loader.quiesce() == loader.collect(0.01) == []
    loader.close()


def test_close_ends_the_threads(file):
    before = threading.active_count()
    loader = Loader(4, Faulty())
    assert threading.active_count() == before + 4
    loader.close()
    assert threading.active_count() == before
