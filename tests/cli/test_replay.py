"""`coli replay` from the outside."""

import json
import struct
import zlib

import pytest

PROMPT = ("run", "--ram", "2GB", "--max-tokens", "8", "--temperature", "0", "--lookahead", "off")


@pytest.fixture
def trace(coli, tmp_path):
    path = tmp_path / "a.trace"
    stats = tmp_path / "stats.json"
    run = coli(
        *PROMPT, "--cache-experts", "6", "--trace", str(path), "--stats-json", str(stats), "Once"
    )
    assert run.code == 0, run.err
    return path, json.loads(stats.read_text())


def test_the_counts_of_the_run_and_all_forms(coli, trace, tmp_path):
    path, stats = trace
    files = {kind: tmp_path / f"out.{kind}" for kind in ("json", "png", "html")}
    flags = [text for kind, file in files.items() for text in (f"--{kind}", str(file))]
    out = coli("replay", str(path), "--capacity", "6,50%,1.5x,1MB", *flags)
    assert out.code == 0
    assert "belady" in out.out
    rows = json.loads(files["json"].read_text())["rows"]
    assert len(rows) == 4 * 7
    same = [r for r in rows if (r["policy"], r["capacity"]) == ("auto", "6")]
    found = json.dumps(stats)
    assert f'"hits": {same[0]["hits"]}' in found
    assert f'"misses": {same[0]["misses"]}' in found
    best = {r["capacity"]: r["hits"] for r in rows if r["policy"] == "belady"}
    assert all(r["hits"] <= best[r["capacity"]] for r in rows)
    check_png(files["png"].read_bytes())
    assert "<svg" in files["html"].read_text()
    assert "http" not in files["html"].read_text()


def check_png(data):
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, pixels = 8, b""
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(kind + body)
        pixels += body if kind == b"IDAT" else b""
        at += 12 + size
    rows = zlib.decompress(pixels)
    assert len(rows) == 420 * (1 + 3 * 900)
    assert len(set(rows)) > 5  # not blank


def decode_rate(out):
    return float(out.out.splitlines()[2].split()[6])


def test_pins_and_lookahead(coli, trace):
    what = ("replay", str(trace[0]), "--capacity", "8", "--policy", "lru")
    plain, helped = coli(*what), coli(*what, "--lookahead", "1")
    assert decode_rate(helped) > decode_rate(plain) + 10  # all but the first layer's
    assert "lru +12 pins" in coli(*what, "--pin", "3").out


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--capacity", "many"], "--capacity 'many'"),
        (["--capacity", "-1"], "--capacity"),
        (["--policy", "mru"], "there is: auto, lru"),
        (["--scope", "world"], "layer, global"),
        (["--pin", "lots"], "size"),
        (["--lookahead", "2"], "from 0 to 1"),
    ],
)
def test_what_makes_no_sense_is_refused(coli, trace, flags, word):
    out = coli("replay", str(trace[0]), *flags)
    assert out.code == 2
    assert word in out.err


def test_a_file_that_is_no_trace(coli, tmp_path):
    (tmp_path / "x").write_text("hello")
    out = coli("replay", str(tmp_path / "x"))
    assert out.code != 0
    assert "no trace of coli" in out.err
