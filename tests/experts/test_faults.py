"""Reads that fail, stall, come short or are interrupted: an error, and a cache in order."""

import errno
import os
import threading
import time

import numpy as np
import pytest
from faults import Faulty, io_error, slow
from model import Layer, expected, routing, write_layer

from colibri.errors import Cancelled, ReadError
from colibri.experts.streamed import StreamedExperts

BUFFERS = pytest.mark.parametrize("buffer", [0, 1 << 20])


@pytest.fixture
def layer(tmp_path):
    layer = Layer(2, tmp_path / "layer2")
    write_layer(layer)
    return layer


@pytest.fixture
def make(layer):
    made = []

    def build(slots, **options):
        made.append(StreamedExperts({2: layer}, slots_per_layer=slots, **options))
        return made[-1]

    yield build
    for experts in made:
        experts.close()


def check(experts, layer, rows=6, k=5, seed=1):
    batch = routing(np.random.default_rng(seed), rows, k, layer)
    y = experts.run(2, *batch)
    np.testing.assert_allclose(y, expected(layer, *batch), rtol=1e-4, atol=1e-5)


@BUFFERS
@pytest.mark.parametrize("capacity", [1, 3, 12])
def test_slow_readers(make, layer, capacity, buffer):
    experts = make(capacity, pair_buffer_bytes=buffer, read=Faulty(slow))
    for seed in range(3):
        check(experts, layer, seed=seed)


@pytest.mark.parametrize("limit", [1, 1000, 4096, 5000])
def test_short_reads_are_completed(make, layer, limit):
    read = Faulty(limit=limit)
    experts = make(12, read=read)
    check(experts, layer, rows=1, k=1)
    assert read.count > 2


def test_a_read_that_fails_three_times_is_tried_again(make, layer):
    experts = make(12, readers=1, read=Faulty(lambda n: io_error(n) if n <= 3 else None))
    check(experts, layer)


@BUFFERS
@pytest.mark.parametrize("capacity", [1, 3, 12])
def test_a_failed_read_is_an_error_and_the_next_call_works(make, layer, capacity, buffer):
    read = Faulty()
    experts = make(capacity, pair_buffer_bytes=buffer, read=read)
    check(experts, layer, rows=1, k=1)
    for good_reads in (0, 1, 4, 9):
        experts.drop_all()
        read.count = 0
        read.fault = lambda n, good=good_reads: io_error(n) if n > good else None
        with pytest.raises(ReadError, match=r"layer2 at byte \d+: expert \d+ of layer 2 .*Input"):
            check(experts, layer)
        read.fault = lambda n: None
        assert len(experts.resident(2)) <= capacity
        check(experts, layer)
        check(experts, layer, seed=2)


def test_the_failed_expert_is_not_resident_and_no_slot_is_lost(make, layer):
    read = Faulty()
    experts = make(3, readers=1, read=read)
    x, weights = np.ones((1, 32), np.float32), np.ones((1, 1), np.float32)
    for expert in range(12):
        read.fault = io_error
        with pytest.raises(ReadError):
            experts.run(2, x, np.array([[expert]], np.int32), weights)
        assert expert not in experts.resident(2)
    read.fault = lambda n: None
    check(experts, layer)
    assert len(experts.resident(2)) == 3


def test_a_file_that_ends_early_is_named(make, layer):
    os.truncate(layer.file, layer.begin(11) + 5000)
    experts = make(12)
    x, weights = np.ones((1, 32), np.float32), np.ones((1, 1), np.float32)
    with pytest.raises(ReadError, match="expert 11 of layer 2 cannot be read: the file ends there"):
        experts.run(2, x, np.array([[11]], np.int32), weights)
    experts.run(2, x, np.array([[10]], np.int32), weights)


def test_a_missing_file_is_named(make, layer):
    layer.file.unlink()
    with pytest.raises(ReadError, match="layer2: cannot be opened: No such file"):
        check(make(3), layer)


def test_a_file_system_that_refuses_direct_reads(make, layer):
    refused = []

    def read(descriptor, buffers, offset):
        import fcntl

        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(descriptor)
            raise OSError(errno.EINVAL, "refused")
        return os.preadv(descriptor, buffers, offset)

    experts = make(12, readers=1, read=read)
    check(experts, layer)
    assert not experts.stats().direct
    assert len(refused) <= 1


def test_without_direct_reads(make, layer, monkeypatch):
    monkeypatch.setattr("colibri.experts.reads.files._DIRECT", 0)
    experts = make(12, readers=1, read=Faulty(lambda n: io_error(n) if n <= 2 else None, 5000))
    check(experts, layer)
    assert not experts.stats().direct


@BUFFERS
def test_a_fault_in_the_read_function_reaches_the_caller(make, layer, buffer):
    def broken(n):
        raise ZeroDivisionError

    read = Faulty(broken)
    experts = make(12, pair_buffer_bytes=buffer, read=read)
    with pytest.raises(ZeroDivisionError):
        check(experts, layer)
    read.fault = lambda n: None
    check(experts, layer)


@BUFFERS
@pytest.mark.parametrize("error", [Cancelled, KeyboardInterrupt])
def test_interrupted_while_waiting(make, layer, error, buffer):
    gate, interrupted = threading.Event(), []

    def cancelled():
        if error is KeyboardInterrupt:
            if not interrupted:
                interrupted.append(True)
                threading.Timer(0.05, gate.set).start()
                raise KeyboardInterrupt
            return False
        threading.Timer(0.05, gate.set).start()
        return not gate.is_set()

    experts = make(
        5, pair_buffer_bytes=buffer, cancelled=cancelled, read=Faulty(lambda n: gate.wait(5))
    )
    with pytest.raises(error):
        check(experts, layer)
    assert gate.wait(5)
    check(experts, layer)
    check(experts, layer, seed=2)
    assert len(experts.resident(2)) == 5


def test_a_second_interrupt_during_the_clean_up(make, layer, monkeypatch):
    gate = threading.Event()
    experts = make(4, readers=2, read=Faulty(lambda n: gate.wait(5)))
    quiesce = experts._loader.quiesce

    def interrupt():
        monkeypatch.setattr(experts._loader, "quiesce", quiesce)
        raise KeyboardInterrupt

    monkeypatch.setattr(experts._loader, "quiesce", interrupt)
    monkeypatch.setattr(experts, "_cancelled", lambda: True)
    with pytest.raises(KeyboardInterrupt):
        check(experts, layer)
    gate.set()
    monkeypatch.setattr(experts, "_cancelled", lambda: False)
    check(experts, layer)
    assert len(experts.resident(2)) == 4


def test_close_while_reads_are_waiting_ends_soon(make, layer):
    begin = time.monotonic()
    experts = make(12, cancelled=lambda: True, read=Faulty(lambda n: time.sleep(0.05)))
    with pytest.raises(Cancelled):
        check(experts, layer)
    experts.close()
    assert time.monotonic() - begin < 2
