"""Traces of routing: what is written is read, and what is damaged is named."""

import os

import msgspec
import numpy as np
import pytest

from colibri.errors import ConfigError, ContainerError
from colibri.routing.base import own_router
from colibri.routing.softmax import SoftmaxRouter
from colibri.routing.trace import (
    Call,
    Header,
    LayerFacts,
    TraceFile,
    encode,
    encode_header,
)
from colibri.routing.tracing import Tracer

LAYERS = [LayerFacts(n, 16, slots=5) for n in (1, 2)]
HEADER = Header(model="m", hidden_size=8, layers=LAYERS, logits=True)


def logits(seed, rows):
    return np.random.default_rng(seed).standard_normal((rows, 16), np.float32)


def record(path, header=HEADER):
    """Two steps of two layers, the second of two sequences; the routers' own answers."""
    tracer = Tracer(path, header)
    make = tracer.wrap(own_router)
    routers = {n: make(n, SoftmaxRouter(4, True), 16) for n in (2, 1)}
    found = []
    for seed, starts, rows in ((1, [0], 3), (2, [0, 1], 2)):
        tracer.step(starts)
        found += [(n, starts, routers[n].route(logits(seed + n, rows))) for n in (1, 2)]
    tracer.close()
    return found


def test_what_is_written_is_read(tmp_path):
    found = record(tmp_path / "t")
    trace = TraceFile(tmp_path / "t")
    assert [(n.layer, n.k, n.slots) for n in trace.header.layers] == [(1, 4, 5), (2, 4, 5)]
    calls = list(trace.calls())
    assert [call.prefill for call in calls] == [True, True, False, False]
    for call, (layer, starts, (ids, weights)) in zip(calls, found, strict=True):
        assert (call.layer, call.starts) == (layer, starts)
        np.testing.assert_array_equal(call.ids, ids)
        np.testing.assert_array_equal(call.weights, weights)
    np.testing.assert_array_equal(calls[3].logits, logits(4, 2))


def test_a_run_that_was_killed_leaves_all_whole_records(tmp_path):
    record(tmp_path / "t")
    data = (tmp_path / "t").read_bytes()
    first = data.index(b"\n") + 1
    counts = []
    for cut in range(first, len(data) + 1, 5):
        (tmp_path / "t").write_bytes(data[:cut])
        counts.append(len(list(TraceFile(tmp_path / "t").calls())))
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert set(counts) >= {1, 2, 3}


def test_a_changed_byte_is_named(tmp_path):
    record(tmp_path / "t")
    data = bytearray((tmp_path / "t").read_bytes())
    data[data.index(b"\n") + 20] ^= 1
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(ContainerError, match=r"t: damaged at byte \d+: .*checksum"):
        list(TraceFile(tmp_path / "t").calls())


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff\xfe", b'{"ids": [[1]]}\n', b"[" * 9999])
def test_what_is_no_trace_is_refused(tmp_path, data):
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(ConfigError, match="no trace of coli"):
        TraceFile(tmp_path / "t")


def test_another_version_is_refused(tmp_path):
    record(tmp_path / "t")
    data = (tmp_path / "t").read_bytes().replace(b'"version":1', b'"version":9')
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(ConfigError, match="version 9; this one reads 1"):
        TraceFile(tmp_path / "t")


def test_an_earlier_trace_is_replaced_and_nothing_else(tmp_path):
    record(tmp_path / "t")
    record(tmp_path / "t")
    assert len(list(TraceFile(tmp_path / "t").calls())) == 4
    (tmp_path / "letter").write_text("Dear Ada")
    with pytest.raises(ConfigError, match="exists and is no trace"):
        Tracer(tmp_path / "letter", HEADER)
    assert (tmp_path / "letter").read_text() == "Dear Ada"
    with pytest.raises(ConfigError, match="--trace"):
        Tracer(tmp_path / "no" / "folder", HEADER)


def test_a_full_disk_ends_the_trace_and_not_the_run(tmp_path, monkeypatch, caplog):
    def full(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    record(tmp_path / "t")
    assert [r.getMessage() for r in caplog.records] == [
        f"--trace {tmp_path / 't'} ends here: No space left on device"
    ]


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        (b'"experts":16', b'"experts":-16'),
        (b'"experts":16', b'"experts":1000000000000'),
        (b'"k":4', b'"k":0'),
        (b'"k":4', b'"k":17'),
        (b'"layer":2', b'"layer":1'),
        (b'"slot_bytes":0', b'"slot_bytes":-1'),
        (b'"hidden_size":8', b'"hidden_size":-8'),
    ],
)
def test_a_first_line_that_makes_no_sense_is_refused(tmp_path, said, instead):
    record(tmp_path / "t")
    data = (tmp_path / "t").read_bytes()
    assert said in data
    (tmp_path / "t").write_bytes(data.replace(said, instead))
    with pytest.raises(ContainerError, match="first line is damaged"):
        TraceFile(tmp_path / "t")


def test_sequences_that_are_not_among_the_rows_are_refused(tmp_path):
    header = encode_header(msgspec.structs.replace(HEADER, layers=[LayerFacts(1, 16, 2)]))
    for starts in ([], [1], [0, 0], [0, 2]):
        ids, weights = np.array([[0, 1]] * 2, np.int32), np.ones((2, 2), np.float32)
        (tmp_path / "t").write_bytes(header + encode(Call(1, starts, ids, weights)))
        with pytest.raises(ContainerError, match="not among its rows"):
            list(TraceFile(tmp_path / "t").calls())


def test_a_pipe_is_no_place_for_a_trace(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="no regular file"):
        Tracer(tmp_path / "pipe", HEADER)


def test_two_runs_do_not_record_into_one_file(tmp_path):
    first = Tracer(tmp_path / "t", HEADER)
    with pytest.raises(ConfigError, match="another run is recording there"):
        Tracer(tmp_path / "t", HEADER)
    first.close()
    record(tmp_path / "t")
    assert len(list(TraceFile(tmp_path / "t").calls())) == 4
