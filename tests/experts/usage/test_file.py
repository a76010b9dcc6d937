import errno
import fcntl
import os
from pathlib import Path

import numpy as np
import pytest
import xxhash
from usage_kit import HALF_LIFE, SUBJECT, counted, usage_file

from colibri.container.layerexperts import LayerExperts
from colibri.errors import CapacityError, ContainerError
from colibri.experts.usage import file as usagefile
from colibri.experts.usage.file import Subject, UsageFile, encode, parse
from colibri.formats.table import FORMATS
from colibri.kernels.moe import ExpertLayout

OTHER = Subject("other", "fedcba9876543210", SUBJECT.experts)


def heat(found):
    return {layer: values.round(6).tolist() for layer, values in found.counts.heat.items()}


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_what_is_added_is_there(tmp_path):
    file = usage_file(tmp_path / "u")
    assert file.read().counts.total_selections == 0
    file.add(counted(1, 3))
    added = file.add(counted(2))
    again = usage_file(tmp_path / "u").read()
    assert heat(added) == heat(again) == {1: [0, 3, 1, 0], 2: [0, 3, 1, 0]}
    assert again.counts.tokens == 4
    assert again.counts.selections == {1: 4, 2: 4}
    assert again.problems == ()
    assert again.head is not None
    assert (again.head.name, again.head.half_life_tokens) == ("small", HALF_LIFE)
    assert names(tmp_path) == ["u", "u.lock"]


def test_what_was_there_has_aged(tmp_path):
    file = UsageFile(tmp_path / "u", SUBJECT, 1000)
    file.add(counted(0, 8))
    found = file.add(counted(1, 1000))
    assert found.counts.heat[1][0] == pytest.approx(4)


LINES = encode(counted(1, 5), SUBJECT, HALF_LIFE).splitlines(keepends=True)


@pytest.mark.parametrize(
    ("lines", "tokens", "kept"),
    [
        ([LINES[0], LINES[1]], 5, [1]),  # cut at a line
        ([LINES[0], LINES[1], LINES[2][:-9]], 5, [1]),  # cut inside one
        ([LINES[0], LINES[1].replace(b"5.0", b"6.0"), LINES[2]], 5, [2]),
        ([LINES[0][:30] + b"#" + LINES[0][31:], *LINES[1:]], 0, [1, 2]),
        ([LINES[0], LINES[1], b"\x00\xff\n", LINES[2]], 5, [1, 2]),
        ([LINES[0], LINES[1], LINES[1], LINES[2]], 5, [1, 2]),
        ([LINES[0], encode(counted(1, 9), OTHER, 1000).splitlines()[1], b"\n", LINES[2]], 5, [2]),
    ],
)
def test_a_damaged_line_is_refused_and_the_others_count(tmp_path, lines, tokens, kept):
    data = b"".join(lines)
    path = tmp_path / "u"
    path.write_bytes(data)
    found = usage_file(path).read()
    assert found.problems
    assert found.counts.tokens == tokens
    assert found.counts.selections == {layer: 5 * (layer in kept) for layer in (1, 2)}
    assert path.read_bytes() == data  # reading changes nothing
    after = usage_file(path).add(counted(1))
    assert after.counts.selections == {layer: 5 * (layer in kept) + 1 for layer in (1, 2)}
    assert usage_file(path).read().problems == ()
    (aside,) = tmp_path.glob("u.*.old")
    assert aside.read_bytes() == data


def resigned(line: bytes, old: bytes, new: bytes, seed: int) -> bytes:
    """A line with other contents, and a signature that is right."""
    body = line[:-18].replace(old, new)
    assert body != line[:-18]
    return body + b" " + xxhash.xxh3_64_hexdigest(body, seed).encode() + b"\n"


@pytest.mark.parametrize(
    ("number", "old", "new"),
    [
        (1, b'"selections":5', b'"selections":' + b"9" * 400),
        (1, b'"selections":5', b'"selections":' + b"9" * 5000),
        (1, b'"selections":5', b'"selections":-1'),
        (1, b'"selections":5', b'"selections":9223372036854775807'),
        (1, b'"layer":1', b'"layer":' + b"1" * 400),
        (1, b"5.0", b"9" * 400),
        (1, b"5.0", b"1e308"),
        (1, b"5.0", b"-1.0"),
        (0, b'"tokens":5', b'"tokens":' + b"9" * 400),
        (0, b'"tokens":5', b'"tokens":-1'),
        (0, b'"half_life_tokens":', b'"half_life_tokens":' + b"9" * 400),
        (0, b'"saved_unix":', b'"saved_unix":' + b"9" * 30),
        (0, b'"usage":1', b'"usage":' + b"1" * 400),
    ],
)
def test_an_absurd_number_is_damage_whatever_its_signature(tmp_path, number, old, new):
    seed = SUBJECT.seed if number else 0
    lines = [*LINES]
    lines[number] = resigned(LINES[number], old, new, seed)
    (tmp_path / "u").write_bytes(b"".join(lines))
    found = usage_file(tmp_path / "u").read()
    assert found.problems
    assert max(found.counts.selections.values()) == 5
    after = usage_file(tmp_path / "u").add(counted(1))
    assert after.counts.selections == {1: 6 if number != 1 else 1, 2: 6}


@pytest.mark.parametrize(
    "data",
    [
        encode(counted(1, 5), OTHER, HALF_LIFE),
        b"-1 92 256\n-2 4 88112233\n3 17 12\n",  # the C engine's (B034)
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"\n",
        b'{"usage":1,"model":[[[[[' * 1000,
    ],
    ids=["model", "engine", "binary", "newline", "nested"],
)
def test_a_foreign_file_is_refused_as_a_whole_and_kept(tmp_path, data):
    (tmp_path / "u").write_bytes(data)
    file = usage_file(tmp_path / "u")
    found = file.read()
    assert found.foreign
    assert len(found.problems) >= 1
    assert found.counts.total_selections == 0
    assert file.add(counted(3)).counts.total_selections == 2
    (aside,) = tmp_path.glob("u.*.old")
    assert aside.read_bytes() == data


def test_a_file_of_a_newer_colibri_is_kept(tmp_path):
    head = usagefile.Head(2, SUBJECT.fingerprint, "small", 1000, 10, 0)
    (tmp_path / "u").write_bytes(usagefile._encoded(head, 0))
    assert "version 2" in usage_file(tmp_path / "u").read().problems[0]


@pytest.mark.parametrize(
    "line",
    [
        usagefile.Line(7, 1, [0.0] * 4),  # no such layer
        usagefile.Line(1, 1, [0.0] * 5),
        usagefile.Line(1, -1, [0.0] * 4),
        usagefile.Line(1, 1, [-1.0, 0.0, 0.0, 0.0]),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_however_well_hashed(line):
    data = LINES[0] + usagefile._encoded(line, SUBJECT.seed) + LINES[2]
    found = parse(data, SUBJECT)
    assert len(found.problems) == 1
    assert found.counts.selections == {1: 0, 2: 5}


def test_an_empty_file_is_no_problem(tmp_path):
    (tmp_path / "u").touch()
    assert usage_file(tmp_path / "u").read().problems == ()


def test_reset_keeps_what_was(tmp_path):
    file = usage_file(tmp_path / "u")
    assert file.reset() is None
    file.add(counted(1, 5))
    data = file.path.read_bytes()
    kept = file.reset()
    assert kept is not None
    assert kept.read_bytes() == data
    assert file.read().counts.tokens == 0
    assert not file.path.exists()


def test_another_process_is_waited_for_a_moment(tmp_path, monkeypatch):
    monkeypatch.setattr(usagefile, "_LOCK_SECONDS", 0.02)
    file = usage_file(tmp_path / "u")
    with open(tmp_path / "u.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ContainerError, match=r"u\.lock: another process holds the lock"):
            file.add(counted(1))
        with pytest.raises(ContainerError):
            file.add(counted(1), wait=False)
    file.add(counted(1))
    assert file.read().counts.tokens == 1


class Failing:
    """Fails the n-th of the calls that may write; counts them all."""

    CALLS = ("open", "write", "fsync", "replace", "unlink")

    def __init__(self, monkeypatch, fail: int, code: int):
        self.count, self.fail, self.code = 0, fail, code
        for name in self.CALLS:
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))
        monkeypatch.setattr(fcntl, "flock", self._watched(fcntl.flock))

    def _watched(self, original):
        def call(*args, **kwargs):
            self.count += 1
            if self.count == self.fail:
                raise OSError(self.code, os.strerror(self.code))
            return original(*args, **kwargs)

        return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("damaged", [False, True])
def test_a_failure_at_any_write_loses_nothing_and_counts_nothing_twice(tmp_path, code, damaged):
    sites = 0
    while True:
        path = tmp_path / str(sites) / "u"
        path.parent.mkdir()
        usage_file(path).add(counted(1, 5))
        if damaged:
            path.write_bytes(path.read_bytes() + b"nonsense\n")
        before = path.read_bytes()
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(patch, sites + 1, code)
            failed = ""
            try:
                usage_file(path).add(counted(2))
            except (ContainerError, CapacityError) as error:
                failed = str(error)
        if failing.count <= sites:
            break
        assert not list(path.parent.glob("*.part"))
        if failed:
            assert str(path) in failed
            assert path.read_bytes() == before
            usage_file(path).add(counted(2))
        found = usage_file(path).read()
        assert heat(found) == {1: [0, 5, 1, 0], 2: [0, 5, 1, 0]}
        assert found.problems == ()
        sites += 1
    assert sites >= (12 if damaged else 7)


def layer(experts=8, hidden=64, scheme="int4-gs64"):
    layout = ExpertLayout(FORMATS[scheme], hidden, 64)
    return LayerExperts(0, experts, layout, 4096, True, False, (), ())


def test_a_fingerprint_tells_models_apart():
    config = {"model_type": "olmoe", "num_experts": 8}
    own = Subject.of("a", config, {0: layer()})
    assert own == Subject.of("a", dict(reversed(config.items())), {0: layer()})
    assert own.experts == {0: 8}
    others = [
        Subject.of("a", {**config, "num_experts": 16}, {0: layer()}),
        Subject.of("a", config, {0: layer(16)}),
        Subject.of("a", config, {0: layer(hidden=128)}),
        Subject.of("a", config, {0: layer(scheme="int8-gs64")}),
        Subject.of("a", config, {0: layer(), 1: layer()}),
    ]
    assert len({own.fingerprint, *(o.fingerprint for o in others)}) == 6


def test_heat_of_many_saves_keeps_its_sum(tmp_path):
    file = UsageFile(tmp_path / "u", SUBJECT, 1000)
    for _ in range(50):
        file.add(counted(1, 7))
    expected = sum(7 * 0.5 ** (7 * i / 1000) for i in range(50))
    found = file.read().counts
    assert found.selections[1] == 350
    assert np.isclose(found.heat[1][1], expected, atol=0.01)


def test_a_link_stays_a_link_and_a_pipe_is_no_usage_file(tmp_path):
    (tmp_path / "far").mkdir()
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(tmp_path / "far" / "usage")
    UsageFile(link, SUBJECT, HALF_LIFE).add(counted(3))
    assert link.is_symlink()
    assert UsageFile(tmp_path / "far" / "usage", SUBJECT, HALF_LIFE).read().counts.tokens
    os.mkfifo(pipe)
    with pytest.raises(ContainerError, match="no regular file"):
        UsageFile(pipe, SUBJECT, HALF_LIFE).add(counted(3))
