"""Bandwidths are measured over what was said, and defects of the disk are errors."""

import numpy as np
import pytest

from colibri import _native
from colibri.errors import ReadError
from colibri.hardware import iobench
from colibri.hardware.iobench import (
    Extent,
    burst_bandwidth,
    disk_bandwidth,
    last_level_cache_bytes,
    memory_bandwidth,
)

pytestmark = pytest.mark.alone


def test_a_stream_reads_every_word():
    rng = np.random.default_rng(1)
    for n in (0, 1, 31, 1000, (1 << 20) + 17):
        data = rng.integers(0, 1 << 63, n).astype(np.uint64)
        assert _native.stream_read(data) == int(data.sum(dtype=np.uint64))


def test_time_in_kernels_is_counted_by_thread():
    before = _native.moment()[1]
    _native.stream_read(np.ones(1 << 20, np.uint64))
    assert _native.moment()[1] > before


def test_memory_bandwidth_is_positive(monkeypatch):
    monkeypatch.setattr(iobench, "_LEAST_STREAM", 1 << 20)
    monkeypatch.setattr(iobench, "_MOST_STREAM", 1 << 20)
    assert memory_bandwidth(1 << 30, seconds=0) > 0


def test_last_level_cache(tmp_path):
    for index, text in enumerate(("32K", "2048K", "36M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(text + "\n")
    assert last_level_cache_bytes(tmp_path) == 36 << 20
    assert last_level_cache_bytes(tmp_path / "none") is None


def test_disk_bandwidth_reads_all_extents(tmp_path):
    file = tmp_path / "data"
    file.write_bytes(bytes(4096 * 20))
    extents = [Extent(file, 4096 * i, 4096) for i in range(20)]
    rate = disk_bandwidth(extents, 3)
    assert rate.bytes_per_second > 0
    assert rate.read_bytes == file.stat().st_size
    assert disk_bandwidth(extents, 3, most_bytes=4096 * 5).read_bytes == 4096 * 5


@pytest.mark.parametrize("at_a_time", [1, 3, 16, 100])
def test_bursts_read_all_extents(tmp_path, at_a_time):
    file = tmp_path / "data"
    file.write_bytes(bytes(4096 * 16))
    extents = [Extent(file, 4096 * i, 4096) for i in range(16)]
    assert burst_bandwidth(extents, 3, at_a_time, 0.0) > 0


def test_the_pauses_between_bursts_do_not_count(tmp_path, monkeypatch):
    file = tmp_path / "data"
    file.write_bytes(bytes(4096 * 16))
    extents = [Extent(file, 4096 * i, 4096) for i in range(16)]
    now, pauses = [0.0], []
    monkeypatch.setattr(
        iobench.time, "perf_counter", lambda: now.__setitem__(0, now[0] + 1) or now[0]
    )
    monkeypatch.setattr(iobench.time, "sleep", pauses.append)
    assert burst_bandwidth(extents, 2, 4, 0.5) == 4096 * 16 / 4  # four bursts of a second
    assert pauses == [0.5] * 4


def test_a_burst_that_cannot_be_read_is_an_error(tmp_path):
    file = tmp_path / "data"
    file.write_bytes(bytes(4096))
    with pytest.raises(ReadError, match="measuring the disk"):
        burst_bandwidth([Extent(file, 8192, 4096)], 2, 4, 0.0)


def test_a_disk_that_fails_is_an_error(tmp_path, monkeypatch):
    file = tmp_path / "data"
    file.write_bytes(bytes(4096))

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(iobench.os, "preadv", fail)
    with pytest.raises(ReadError, match="Input/output error"):
        disk_bandwidth([Extent(file, 0, 4096)], 2)
