"""The native readers: order, pieces, faults that files really have, and ends of every kind."""

import errno
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from colibri import _native
from colibri.container.layerexperts import Span
from colibri.errors import ReadError
from colibri.experts.cache.arena import Arena
from colibri.experts.reads.job import Job
from colibri.experts.reads.loader import Loader

PAGE = 4096
DEMANDED = -1


@pytest.fixture
def file(tmp_path):
    """16 pages whose every byte is the page's number, and then half a page."""
    path = tmp_path / "pages"
    path.write_bytes(np.repeat(np.arange(17, dtype=np.uint8), PAGE).tobytes()[: -PAGE // 2])
    return path


@pytest.fixture
def pages(file):
    descriptor = os.open(file, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def zeros():
    descriptor = os.open("/dev/zero", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def memory(count=1):
    return np.full(count * PAGE, 255, np.uint8)


def span(descriptor, page, count=1, place=0, needed=None):
    nbytes = count * PAGE
    return descriptor, False, page * PAGE, nbytes, needed or nbytes, place


def long_spans(zeros, megabytes):
    """Reads that take a while, all into the same place."""
    return [span(zeros, 0, 256)] * megabytes


def results(readers, count):
    found = []
    while len(found) < count:
        found += readers.collect(1.0)
    assert readers.collect(0) == []
    return found


@pytest.mark.parametrize("piece_pages", [1, 3, 16])
@pytest.mark.parametrize("threads", [1, 3])
def test_all_bytes_land_in_their_place(pages, threads, piece_pages):
    readers = _native.Readers(threads, piece_pages * PAGE)
    target = memory(17)
    last = span(pages, 11, 6, 11 * PAGE, 5 * PAGE + PAGE // 2)
    readers.submit([(7, DEMANDED, target, [span(pages, 5, 6, 5 * PAGE), span(pages, 0, 5), last])])
    ((tag, nbytes, seconds, error),) = results(readers, 1)
    assert (tag, nbytes, error) == (7, 16 * PAGE + PAGE // 2, 0)
    assert seconds > 0
    assert (target[:nbytes] == np.arange(nbytes) // PAGE).all()
    assert (target[nbytes:] == 255).all()
    readers.close()


def test_demands_go_first_then_guesses_by_layer(pages):
    readers = _native.Readers(1, PAGE)
    layers = {1: 9, 2: DEMANDED, 3: 4, 4: DEMANDED, 5: 9, 6: 4, 7: 5}
    readers.submit([(t, n, memory(3), [span(pages, 0, 3)]) for t, n in layers.items()])
    assert [r[0] for r in results(readers, 7)] == [2, 4, 3, 6, 7, 1, 5]
    readers.close()


def test_promoted_and_withdrawn_before_they_began(pages, zeros):
    for megabytes in (100, 1000, 10000):  # until the first job lasts long enough
        readers, target = _native.Readers(1, 1 << 20), [memory() for _ in range(5)]
        guesses = [(t, 3 + t % 2, target[t], [span(pages, t)]) for t in range(1, 5)]
        readers.submit([(0, DEMANDED, memory(256), long_spans(zeros, megabytes)), *guesses])
        assert not readers.promote(9)
        promoted = readers.promote(3)
        withdrawn = readers.withdraw([0, 2, 3, 9])
        early = readers.collect(0)
        if not early:
            assert promoted
            assert withdrawn == [2]
            assert [r[0] for r in results(readers, 4)] == [0, 3, 4, 1]
            assert (target[2] == 255).all()
            assert (target[3] == 3).all()
            return
        readers.close()
    raise AssertionError("10 GB were read at once")


def test_each_job_is_withdrawn_or_read_whatever_the_moment(pages):
    readers = _native.Readers(3, PAGE)
    for moment in range(200):
        target = [memory(4) for _ in range(8)]
        jobs = [(t, t if t > 2 else DEMANDED, target[t], [span(pages, 1, 4)]) for t in range(8)]
        readers.submit(jobs)
        early = readers.collect(0.0001 * (moment % 3)) if moment % 2 else []
        readers.promote(5)
        withdrawn = readers.withdraw(list(range(8)))
        read = [r[0] for r in early + results(readers, 8 - len(withdrawn) - len(early))]
        assert sorted(read + withdrawn) == list(range(8))
        assert not {0, 1, 2, 5}.intersection(withdrawn)
        for t in range(8):
            assert (target[t] == 255).all() if t in withdrawn else (target[t] < 5).all()
    readers.close()


def test_what_a_file_cannot_give_is_reported(pages, tmp_path):
    directory = os.open(tmp_path, os.O_RDONLY)
    readers = _native.Readers(2, PAGE)
    readers.submit(
        [
            (1, DEMANDED, memory(4), [span(pages, 14, 4)]),
            (2, DEMANDED, memory(4), [span(directory, 0, 4)]),
            (3, 8, memory(4), [span(pages, 0, 4)]),
        ]
    )
    assert {r[0]: r[3] for r in results(readers, 3)} == {
        1: _native.FILE_ENDS,
        2: errno.EISDIR,
        3: 0,
    }
    readers.close()
    os.close(directory)


def test_quiesce_waits_for_what_has_begun_and_forgets_the_rest(pages, zeros):
    readers, later = _native.Readers(2, 1 << 20), memory()
    readers.submit([(0, DEMANDED, memory(256), long_spans(zeros, 200))])
    readers.submit([(t, 3 + t, later, [span(zeros, 0)]) for t in (1, 2)])
    while (found := readers.quiesce(0.001)) is None:
        pass
    assert 0 not in readers.withdraw([0, 1, 2])
    assert readers.quiesce(0) == []
    begun = {r[0] for r in found}
    assert begun <= {0, 1, 2}
    readers.submit([(3, DEMANDED, memory(), [span(pages, 3)])])  # works on
    assert [r[0] for r in results(readers, 1)] == [3]
    readers.close()


def test_close_during_reads_ends_soon_and_nothing_runs_afterwards(zeros):
    readers = _native.Readers(2, 1 << 20)
    readers.submit([(0, DEMANDED, memory(256), long_spans(zeros, 100_000))])  # 100 GB
    readers.close()
    readers.close()
    with pytest.raises(RuntimeError, match="closed"):
        readers.submit([(1, DEMANDED, memory(), [span(zeros, 0)])])


def test_the_memory_lives_until_its_job_has_ended(zeros):
    readers, target = _native.Readers(1, 1 << 20), memory(256)
    readers.submit([(0, DEMANDED, target, long_spans(zeros, 50))])
    before = sys.getrefcount(target)
    assert results(readers, 1)[0][3] == 0
    assert sys.getrefcount(target) < before
    readers.submit([(0, DEMANDED, target, long_spans(zeros, 100_000))])
    del target, readers  # ends the reads first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"place": PAGE}, "outside its memory"),
        ({"place": -PAGE}, "outside its memory"),
        ({"needed": 2 * PAGE}, "no file or no bytes"),
        ({"descriptor": -1}, "no file or no bytes"),
    ],
)
def test_spans_that_cannot_be_are_refused(zeros, change, message):
    readers = _native.Readers(1, PAGE)
    bad = span(**{"descriptor": zeros, "page": 0, **change})
    with pytest.raises(ValueError, match=message):
        readers.submit([(0, DEMANDED, memory(), [bad])])
    with pytest.raises(ValueError, match="needs spans"):
        readers.submit([(0, DEMANDED, memory(), [])])
    with pytest.raises(TypeError):
        readers.submit([(0, DEMANDED, memoryview(bytes(PAGE)), [span(zeros, 0)])])
    with pytest.raises(ValueError, match="readers"):
        _native.Readers(0, PAGE)
    with pytest.raises(ValueError, match="piece_bytes"):
        _native.Readers(1, 100)
    readers.close()


def test_a_forked_process_has_no_readers_and_says_so(zeros):
    readers = _native.Readers(2, PAGE)
    child = os.fork()
    if child == 0:
        try:
            readers.collect(1.0)
        except RuntimeError:
            del readers
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    readers.submit([(0, DEMANDED, memory(), [span(zeros, 0)])])
    assert results(readers, 1)
    readers.close()


def test_the_interpreter_ends_during_reads():
    program = """
import os, numpy
from colibri import _native
zeros = os.open("/dev/zero", os.O_RDONLY)
readers = _native.Readers(2, 1 << 20)
span = zeros, False, 0, 1 << 20, 1 << 20, 0
readers.submit([(0, -1, numpy.zeros(1 << 20, numpy.uint8), [span] * 100_000)])
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def job(file, page, view, count=1, needed=None):
    nbytes = count * PAGE
    spans = (Span(file, page * PAGE, nbytes, 0, needed or nbytes),)
    return Job(0, page, spans, view, lambda slot: (1.0, 1.0, 1.0))


def collect(loader, count):
    jobs = []
    while len(jobs) < count:
        jobs += loader.collect(1.0)
    return jobs


def test_a_read_that_failed_is_tried_again_by_a_thread_that_knows_how(file, tmp_path, monkeypatch):
    arena = Arena({PAGE: 4})
    views = [arena.view(slot) for slot in arena.take(PAGE, 4)]
    loader = Loader(2)
    loader.submit(job(file, 1, views[0]))
    collect(loader, 1)
    opened = loader._files.of(job(file, 1, views[0]).spans[0])
    descriptor, _ = opened.descriptor()
    spare, directory = os.dup(descriptor), os.open(tmp_path, os.O_RDONLY)
    os.dup2(directory, descriptor)
    threads = []

    def heal(seconds):
        threads.append(threading.current_thread())
        os.dup2(spare, descriptor)

    monkeypatch.setattr("colibri.container.retry.time.sleep", heal)
    monkeypatch.setattr(opened, "buffered", lambda: descriptor)
    loader.submit(*(job(file, page, views[page]) for page in range(4)))
    for finished in collect(loader, 4):
        assert finished.error is None
        assert finished.nbytes == PAGE
        assert set(finished.slot) == {finished.expert}
    assert threads
    assert threading.current_thread() not in threads
    loader.close()
    os.close(spare)
    os.close(directory)


def test_a_file_that_ends_early_is_named_and_the_others_land(file):
    arena = Arena({2 * PAGE: 2})
    views = [arena.view(slot) for slot in arena.take(2 * PAGE, 2)]
    loader = Loader(2)
    loader.submit(job(file, 15, views[0], 2), job(file, 3, views[1], 2))
    by_page = {finished.expert: finished for finished in collect(loader, 2)}
    assert isinstance(by_page[15].error, ReadError)
    assert "pages at byte 67584: expert 15 of layer 0 cannot be read: the file ends" in str(
        by_page[15].error
    )
    assert by_page[3].error is None
    assert loader.quiesce() == []
    loader.close()


def test_a_direct_read_that_is_refused_is_buffered_from_then_on(file):
    loader = Loader(1)
    unaligned = memoryview(memory(3))[1:]
    loader.submit(job(file, 2, unaligned, 2))
    (finished,) = collect(loader, 1)
    assert finished.error is None
    assert set(unaligned[:PAGE]) == {2}
    assert set(unaligned[PAGE : 2 * PAGE]) == {3}
    assert not loader.direct
    loader.submit(job(file, 4, unaligned, 2))
    assert collect(loader, 1)[0].error is None
    assert set(unaligned[:PAGE]) == {4}
    loader.close()


def test_a_missing_file_is_told_by_the_next_collect(file, tmp_path):
    loader, view = Loader(1), Arena({PAGE: 1}).view(0)
    loader.submit(job(tmp_path / "gone", 0, view), job(file, 1, view))
    by_page = {finished.expert: finished for finished in collect(loader, 2)}
    assert "gone: cannot be opened: No such file" in str(by_page[0].error)
    assert by_page[1].error is None
    loader.close()


def test_a_bell_rings_once_for_all_that_went_before():
    bell = _native.Bell()
    assert not bell.wait(0)
    bell.ring()
    bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0.001)
    threading.Timer(0.01, bell.ring).start()
    assert bell.wait(30)
