import gzip
import io
import json
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import trunk_tensors, write_raw, write_tensors

from colibri.container.header import DTYPE_BITS, MAX_HEADER_BYTES, read_header
from colibri.errors import ContainerError


def refusal(path: Path) -> str:
    """The message; every refusal names the file, in bounded time and memory."""
    tracemalloc.start()
    started = time.monotonic()
    with pytest.raises(ContainerError) as e:
        read_header(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.monotonic() - started < 10
    assert peak < 100e6
    assert str(path) in str(e.value)
    assert len(str(e.value)) < 1500
    return str(e.value)


def test_reads_what_safetensors_wrote(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(0, np.uint8)}
    arrays["scalar"] = np.array(7, np.int64)
    safetensors.numpy.save_file(arrays, path, metadata={"format": "pt"})
    tensors, metadata = read_header(path)
    assert metadata == {"format": "pt"}
    data = path.read_bytes()
    for name, a in arrays.items():
        t = tensors[name]
        assert t.shape == a.shape
        assert data[t.offset : t.offset + t.nbytes] == a.tobytes()


def test_what_we_write_in_tests_is_valid(tmp_path: Path) -> None:
    tensors = {"a": np.ones((2, 3), np.float16)}
    path = write_tensors(tmp_path / "x.safetensors", tensors, align=4096)
    assert safetensors.numpy.load_file(path)["a"].shape == (2, 3)
    assert read_header(path)[0]["a"].offset == 4096


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        z.writestr("archive/data.pkl", b"x" * 100)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "empty"),
        (b"1234567", "7 bytes"),
        (b"12345678", "text"),
        (struct.pack("<Q", 2), "first bytes"),
        (bytes(8), "zeros"),
        (bytes(4096), "zeros"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>not found</html>", "HTML"),
        (b"\n <html>", "HTML"),
        (b'{"error": "Repository not found"}', "Repository not found"),
        (b"Access to this model is restricted", "Access to this"),
        (zipped(), "zip archive"),
        (gzip.compress(b"x" * 100, mtime=0), "gzip"),
        (b"GGUF\x03\x00\x00\x00" + bytes(100), "GGUF"),
        (b"\x80\x02}q\x00(X\x01\x00\x00\x00", "pickle"),
        (b"\x28\xb5\x2f\xfd" + bytes(20), "zstd"),
        (b"\xde\xad\xbe\xef" * 10, "no safetensors header"),
    ],
)
def test_what_is_no_safetensors_file_is_said(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    assert part in refusal(path)


@pytest.mark.parametrize(
    "length", [0, 1, 2**63, 2**64 - 1, 2**31, MAX_HEADER_BYTES + 1, MAX_HEADER_BYTES, 1000]
)
def test_header_lengths(tmp_path: Path, length: int) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b'{"a": 1}' + b" " * 100)
    message = refusal(path)
    if length >= 2:
        assert str(length) in message


def test_header_longer_than_the_file_by_a_byte(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "x.safetensors", b'{"__metadata__":{}}')
    read_header(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "cut short" in refusal(path)


def test_a_header_length_up_to_the_limit_in_a_sparse_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with path.open("wb") as f:
        f.write(struct.pack("<Q", MAX_HEADER_BYTES + 1) + b"{")
        f.truncate(1 << 40)
    assert "at most" in refusal(path)


@pytest.mark.parametrize("cut", [1, 100, 4000])
def test_truncated_data(tmp_path: Path, cut: int) -> None:
    path = write_tensors(tmp_path / "x.safetensors", trunk_tensors())
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    message = refusal(path)
    assert f"has {len(data) - cut} bytes" in message
    assert "download it again" in message


def test_bytes_after_the_end(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "x.safetensors", trunk_tensors())
    path.write_bytes(path.read_bytes() + b"123")
    assert "3 bytes after the last tensor" in refusal(path)


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def with_field(**fields: Any) -> dict[str, Any]:
    return {**F32, **fields}


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        (None, "no JSON object"),
        ([], "no JSON object"),
        ({}, "dtype, shape and data_offsets"),
        ({"dtype": "F32", "shape": [2]}, "dtype, shape and data_offsets"),
        (with_field(extra=1), "dtype, shape and data_offsets"),
        (with_field(dtype="int2"), "unknown dtype 'int2'"),
        (with_field(dtype="f32"), "unknown dtype"),
        (with_field(dtype=None), "unknown dtype"),
        (with_field(dtype=["F32"]), "unknown dtype"),
        (with_field(dtype="x" * 10_000), "unknown dtype"),
        (with_field(shape=None), "shape must be"),
        (with_field(shape=2), "shape must be"),
        (with_field(shape=[2.0]), "shape must be"),
        (with_field(shape=[True, 2]), "shape must be"),
        (with_field(shape=["2"]), "shape must be"),
        (with_field(shape=[-2]), "shape must be"),
        (with_field(shape=[-1, -2]), "shape must be"),
        (with_field(shape=[2**63]), "shape must be"),
        (with_field(shape=[1] * 17), "17 dimensions"),
        (with_field(shape=[3]), "takes 12 bytes, but data_offsets span 8"),
        (with_field(shape=[2**32, 2**32, 2]), "takes 147,573,952,589,676,412,928 bytes"),
        (with_field(shape=[2**62, 2**62] * 8), "takes"),
        (with_field(dtype="F4", shape=[15]), "takes 8 bytes"),
        (with_field(data_offsets=None), "data_offsets must be"),
        (with_field(data_offsets=[0]), "data_offsets must be"),
        (with_field(data_offsets=[0, 4, 8]), "data_offsets must be"),
        (with_field(data_offsets=[8, 0]), "begin <= end"),
        (with_field(data_offsets=[-8, 0]), "data_offsets must be"),
        (with_field(data_offsets=[False, 8]), "data_offsets must be"),
        (with_field(data_offsets=[0.0, 8.0]), "data_offsets must be"),
        (with_field(data_offsets=["0", "8"]), "data_offsets must be"),
        (with_field(data_offsets=[0, None]), "data_offsets must be"),
        (with_field(data_offsets=[2**63 - 8, 2**63]), "data_offsets must be"),
        (with_field(data_offsets=[2**62, 2**62 + 8]), "leaves a hole"),
    ],
)
def test_bad_entries_name_tensor_and_defect(tmp_path: Path, entry: Any, part: str) -> None:
    path = write_raw(tmp_path / "x.safetensors", {"some.tensor": entry}, bytes(8))
    message = refusal(path)
    assert "'some.tensor'" in message
    assert part in message


@pytest.mark.parametrize(
    ("spans", "part"),
    [
        ([[0, 8], [4, 12]], "'b': overlaps tensor 'a'"),
        ([[0, 8], [0, 8]], "overlaps"),
        ([[0, 8], [12, 20]], "'b': leaves a hole after tensor 'a'"),
        ([[4, 12], [12, 20]], "'a': leaves a hole after the header"),
        ([[8, 16], [16, 24]], "leaves a hole"),
        ([[0, 8], [8, 16], [4, 4]], "overlaps"),
        ([[0, 8], [8, 16], [99, 99]], "leaves a hole"),
    ],
)
def test_overlaps_and_holes(tmp_path: Path, spans: list[list[int]], part: str) -> None:
    header = {
        name: {"dtype": "F32", "shape": [(span[1] - span[0]) // 4], "data_offsets": span}
        for name, span in zip("abc", spans, strict=False)
    }
    path = write_raw(tmp_path / "x.safetensors", header, bytes(max(s[1] for s in spans)))
    assert part in refusal(path)


def test_order_in_the_header_does_not_matter(tmp_path: Path) -> None:
    header = {
        "b": with_field(data_offsets=[8, 16]),
        "empty": {"dtype": "F32", "shape": [0, 5], "data_offsets": [8, 8]},
        "a": F32,
    }
    tensors, _ = read_header(write_raw(tmp_path / "x.safetensors", header, bytes(16)))
    assert tensors["b"].offset - tensors["a"].offset == 8


@pytest.mark.parametrize(
    "header",
    [
        b'{"a": 1, "a": 2}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": "unterminated',
        b'{"a": "\\u00',
        b'{"a\xff": 1}',
        b'{"a": {"dtype": "F32", "dtype": "F16", "shape": [], "data_offsets": [0, 4]}}',
        b'{"__metadata__": {}, "__metadata__": {}}',
        b'{"__metadata__": []}',
        b'{"__metadata__": {"a": 1}}',
        b'{"__metadata__": null}',
        b"{",
        b"{}x",
        b"{" + b" " * 1_000_000,
    ],
)
def test_bad_header_text(tmp_path: Path, header: bytes) -> None:
    assert "header" in refusal(write_raw(tmp_path / "x.safetensors", header, bytes(8)))


def test_many_values_are_refused_before_they_cost_memory(tmp_path: Path) -> None:
    header = b'{"a":[' + b"[]," * 6_000_000 + b"[]]}"
    assert "values" in refusal(write_raw(tmp_path / "x.safetensors", header))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    header = {"a": F32, "b": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [8, 16]}}
    content = bytearray(write_raw(path, header, bytes(16)).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        tensors, _ = read_header(path)
    except ContainerError:
        return
    for t in tensors.values():
        assert t.offset + t.nbytes <= len(content)
        assert int(np.prod(t.shape)) * DTYPE_BITS[t.dtype] == t.nbytes * 8


def test_a_directory_named_like_a_shard(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").mkdir()
    assert "directory" in refusal(tmp_path / "x.safetensors")


def test_header_of_a_large_model_is_read_quickly(tmp_path: Path) -> None:
    n = 30_000
    header = {
        f"model.layers.0.mlp.experts.{i}.down_proj.weight": with_field(
            data_offsets=[8 * i, 8 * i + 8]
        )
        for i in range(n)
    }
    path = write_raw(tmp_path / "x.safetensors", json.dumps(header).encode(), bytes(8 * n))
    started = time.monotonic()
    assert len(read_header(path)[0]) == n
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'{"model": {"type": "BPE"}, "version": 1}', "JSON text"),
        (b'{"hello": 1}' + b" " * 600, "JSON text"),
        (b"<html>  {}</html>", "HTML"),
        (b"version {https://example.org}", "text"),
        (b"\xef\xbb\xbf{abcd{efgh}", "JSON text"),
    ],
)
def test_text_is_no_length(tmp_path: Path, content: bytes, kind: str) -> None:
    """Whatever its ninth character."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    message = refusal(path)
    assert kind in message
    assert "bytes" not in message
