"""The loader alone, under load: each read in its own slot, all accounted for. What needs a read
function of its own is done by the readers in Python; test_native.py is about the others."""

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from faults import Faulty, io_error, slow

from colibri.container.layerexperts import Span
from colibri.experts.cache.arena import Arena
from colibri.experts.reads.job import Job
from colibri.experts.reads.loader import Loader

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


def now_and_then():
    """Every seventh read fails, but never a reader's next one: the retry of a read succeeds."""
    reader = threading.local()

    def fault(n):
        reader.failed = n % 7 == 0 and not getattr(reader, "failed", False)
        return io_error(n) if reader.failed else slow(n)

    return fault


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("native", [False, True])
def test_stress_with_recycled_slots(file, seed, native):
    rng = np.random.default_rng(seed)
    arena = Arena({BYTES: 5})
    free = arena.take(BYTES, 5)
    loader = Loader(3, None if native else Faulty(now_and_then()))
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


class Turns:
    """The offsets of the reads in their order; the first waits until the gate is open."""

    def __init__(self):
        self.begun, self.gate, self.experts = threading.Event(), threading.Event(), []

    def __call__(self, descriptor, buffers, offset):
        self.begun.set()
        assert self.gate.wait(5)
        self.experts.append(offset // BYTES)
        return os.preadv(descriptor, buffers, offset)


def guess(file, expert, view, layer):
    work = job(file, expert, view)
    work.layer, work.ahead, work.demanded = layer, True, False
    return work


def test_demands_go_first_then_guesses_by_layer(file):
    turns, arena = Turns(), Arena({BYTES: 8})
    loader = Loader(1, turns)
    views = [arena.view(slot) for slot in arena.take(BYTES, 8)]
    loader.submit(job(file, 0, views[0]))
    assert turns.begun.wait(5)
    guesses = {e: guess(file, e, views[e], layer) for e, layer in ((1, 9), (2, 3), (3, 9), (4, 3))}
    loader.submit(*guesses.values(), job(file, 5, views[5]))
    loader.promote(guesses[3])
    assert loader.withdraw([guesses[4], guesses[3]]) == {guesses[4]}
    assert loader.withdraw([guesses[4]]) == set()
    turns.gate.set()
    collect(loader, 5)
    assert turns.experts == [0, 5, 3, 2, 1]
    loader.close()


@pytest.mark.parametrize(("readers", "most"), [(1, 1), (2, 2), (4, 3)])
def test_guesses_run_side_by_side_and_leave_a_reader_to_demands(file, readers, most):
    gate, demanded = threading.Event(), threading.Event()
    running, lock = [], threading.Lock()

    def hold(n):
        with lock:
            running.append(n)
            if len(running) == most:
                demanded.set()
        assert gate.wait(5)

    arena = Arena({BYTES: 8})
    loader = Loader(readers, Faulty(hold))
    for expert, slot in enumerate(arena.take(BYTES, 8)):
        loader.submit(guess(file, expert, arena.view(slot), 1))
    assert demanded.wait(5)
    time.sleep(0.02)
    assert len(running) == most
    gate.set()
    collect(loader, 8)
    loader.close()


def test_close_ends_the_threads(file):
    before = threading.active_count()
    loader = Loader(4, Faulty())
    assert threading.active_count() == before + 4
    loader.close()
    assert threading.active_count() == before


def test_close_ends_the_native_threads(file):
    tasks = Path("/proc/self/task")
    before = set(tasks.iterdir())
    loader = Loader(4)
    readers = set(tasks.iterdir()) - before
    assert len(readers) == 4
    loader.close()
    assert not readers.intersection(tasks.iterdir())
