"""Every way in which a mirror can be wrong has its name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from colibri.container.receipt import (
    RECEIPT_NAME,
    MirrorFile,
    files_of,
    make_receipt,
    read_receipt,
    write_receipt,
)
from colibri.errors import ConfigError, ContainerError
from colibri.planner.mirror.verdict import Verdict
from colibri.planner.mirror.verify import verify_mirror
from mirror_kit import layers_of, model_at, stage


@pytest.fixture
def model(model_of: Any, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_of("olmoe", "int4"), tmp_path / "model"))


@pytest.fixture(params=["records", "shards"])
def mirror(request: Any, model: Path, tmp_path: Path) -> Path:
    stage(model, tmp_path / "mirror", request.param, file_bytes=1 << 16)
    return tmp_path / "mirror"


def verify(mirror: Path, model: Path | None = None) -> Verdict:
    return verify_mirror(mirror, model, layers_of)


def kinds(verdict: Verdict) -> list[str]:
    return [failure.kind for failure in verdict.failures]


def first(mirror: Path) -> Path:
    return min(p for p in mirror.iterdir() if not p.name.startswith("."))


def flip(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def rewrite(mirror: Path, change: Callable[[list[MirrorFile]], list[MirrorFile]]) -> None:
    """A receipt with other entries and a right checksum."""
    path = mirror / RECEIPT_NAME
    receipt = read_receipt(path)
    assert receipt is not None
    files = change(files_of(receipt)[0])
    write_receipt(path, make_receipt(receipt.created, receipt.source, receipt.model, files))


def test_a_sound_mirror(mirror: Path, model: Path) -> None:
    for verdict in (verify(mirror), verify(mirror, model)):
        assert verdict.ready
        assert verdict.mode == "receipt"
        assert verdict.files == len(list(mirror.iterdir())) - 1
        assert verdict.nbytes == sum(
            p.stat().st_size for p in mirror.iterdir() if p.name != RECEIPT_NAME
        )


DAMAGE: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "size": lambda path: os.truncate(path, path.stat().st_size - 1),
    "hash": lambda path: flip(path, -5000),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named(mirror: Path, model: Path, kind: str) -> None:
    file = first(mirror)
    DAMAGE[kind](file)
    for verdict in (verify(mirror), verify(mirror, model)):
        assert [(f.kind, f.file) for f in verdict.failures] == [(kind, file.name)]


def test_a_file_that_never_was_safetensors(mirror: Path) -> None:
    """Its hash is the receipt's, so it was not damaged since: the header is what is wrong."""
    import hashlib

    file = first(mirror)
    file.write_bytes(b"<html>not found</html>")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    changed = {"size": file.stat().st_size, "sha256": sha256}
    rewrite(
        mirror,
        lambda files: [
            msgspec.structs.replace(f, **changed) if f.name == file.name else f for f in files
        ],
    )
    (failure,) = verify(mirror).failures
    assert (failure.kind, failure.file) == ("header", file.name)
    assert "HTML" in failure.detail


def test_a_directory_in_place_of_a_file(mirror: Path) -> None:
    file = first(mirror)
    file.unlink()
    file.mkdir()
    (failure,) = verify(mirror).failures
    assert failure.kind == "header"
    assert "a directory" in failure.detail


def test_listed_twice(mirror: Path) -> None:
    rewrite(mirror, lambda files: [*files, files[0]])
    assert kinds(verify(mirror)) == ["duplicate"]


def test_one_expert_in_two_files(model: Path, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    stage(model, a, file_bytes=1 << 16)
    stage(model, b)
    for file in b.glob("*.colirec"):
        shutil.copy(file, a)
    receipt = read_receipt(b / RECEIPT_NAME)
    assert receipt is not None
    rewrite(a, lambda files: [*files, *files_of(receipt)[0]])
    assert set(kinds(verify(a))) == {"duplicate"}


def test_source_missing(mirror: Path, model: Path) -> None:
    file = first(mirror)
    gone = model / (file.name if file.suffix == ".safetensors" else "config.json")
    gone.unlink()
    verdict = verify(mirror, model)
    assert set(kinds(verdict)) == {"source missing"}
    assert gone.name in verdict.failures[0].detail
    assert verify(mirror).ready


def test_source_changed(mirror: Path, model: Path) -> None:
    shard = max(model.glob("experts-*.safetensors"))
    flip(shard, shard.stat().st_size // 2 + 100)  # where no sample looks
    verdict = verify(mirror, model)
    assert set(kinds(verdict)) == {"source changed"}
    assert verify(mirror).ready


def test_another_model(mirror: Path, model_of: Any) -> None:
    verdict = verify(mirror, model_of("olmoe", "int8"))
    assert set(kinds(verdict)) == {"source changed"}
    assert len(verdict.failures) == verdict.files


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"name": "../up", "kind": "shard", "size": 1, "sha256": "0" * 64, "experts": 1},
        {"name": "a", "kind": "shard", "size": -1, "sha256": "0" * 64, "experts": 1},
        {"name": "a", "kind": "film", "size": 1, "sha256": "0" * 64, "experts": 1},
        {"name": "a", "kind": "shard", "size": 1, "sha256": "zz", "experts": 1},
        7,
    ],
)
def test_a_receipt_entry_that_makes_no_sense(mirror: Path, entry: Any) -> None:
    path = mirror / RECEIPT_NAME
    receipt = json.loads(path.read_bytes())
    receipt["files"].insert(0, entry)
    path.write_text(json.dumps(receipt))
    assert kinds(verify(mirror)) == ["invalid receipt", "invalid receipt entry"]


@pytest.mark.parametrize("text", [b"", b"[]", b'{"version": true}', b'{"version": 1, "files": 3}'])
def test_a_receipt_that_is_none(mirror: Path, text: bytes) -> None:
    (mirror / RECEIPT_NAME).write_bytes(text)
    verdict = verify(mirror)
    assert kinds(verdict) == ["invalid receipt"]
    assert RECEIPT_NAME in verdict.failures[0].detail


def test_without_a_receipt_it_is_a_whole_copy(model: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    shutil.copytree(model, mirror)
    with pytest.raises(ConfigError, match=r"has no receipt.*--model"):
        verify(mirror)
    verdict = verify(mirror, model)
    assert verdict.ready
    assert verdict.mode == "full"
    shards = sorted(mirror.glob("experts-*.safetensors"))
    assert verdict.files == len(shards)
    shards[0].unlink()
    os.truncate(shards[1], 5000)
    flip(shards[2], 40)
    assert kinds(verify(mirror, model)) == ["missing", "size", "header"]
    shutil.copy(model / shards[2].name, mirror)
    flip(shards[2], -5000)
    assert kinds(verify(mirror, model)) == ["missing", "size", "hash"]


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="no such directory"):
        verify(tmp_path / "nowhere")


def test_nothing_is_changed(mirror: Path, model: Path) -> None:
    def states(directory: Path) -> dict[str, tuple[int, int]]:
        return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in directory.iterdir()}

    DAMAGE["hash"](first(mirror))
    before = states(mirror), states(model)
    verify(mirror, model)
    assert (states(mirror), states(model)) == before


def test_identity_of_the_kit_is_that_of_the_receipt(mirror: Path, model: Path) -> None:
    receipt = read_receipt(mirror / RECEIPT_NAME)
    assert receipt is not None
    assert receipt.model == model_at(model).identity
