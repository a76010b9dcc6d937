import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_model import expert_tensors, trunk_tensors, write_sharded, write_tensors

from colibri.container import files
from colibri.container.jsonfile import read_json
from colibri.container.shards import read_shards
from colibri.errors import ContainerError, ReadError, UnsupportedModelError

TENSORS = {**trunk_tensors(), **expert_tensors()}
INDEX = "model.safetensors.index.json"


def refusal(directory: Path) -> str:
    with pytest.raises(ContainerError) as e:
        read_shards(directory)
    return str(e.value)


def edit_index(directory: Path, change: Any) -> None:
    path = directory / INDEX
    index = json.loads(path.read_text())
    change(index["weight_map"])
    path.write_text(json.dumps(index))


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("shards", [1, 4])
def test_complete_sets(tmp_path: Path, shards: int, index: bool) -> None:
    write_sharded(tmp_path, TENSORS, shards, index)
    found = read_shards(tmp_path)
    assert found.keys() == TENSORS.keys()
    for name, t in found.items():
        data = t.file.read_bytes()[t.offset : t.offset + t.nbytes]
        assert data == TENSORS[name].tobytes()


def test_a_single_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", TENSORS)
    assert read_shards(tmp_path).keys() == TENSORS.keys()


@pytest.mark.parametrize("gone", [0, 1, 3])
def test_a_missing_shard_with_an_index(tmp_path: Path, gone: int) -> None:
    paths = write_sharded(tmp_path, TENSORS, 4)
    paths[gone].unlink()
    message = refusal(tmp_path)
    assert "1 of 4 shards is missing" in message
    first = list(TENSORS)[gone * len(TENSORS) // 4]
    assert f"'{paths[gone].name}' (first tensor: '{first}')" in message


@pytest.mark.parametrize("gone", [0, 1, 3])
def test_a_missing_shard_without_an_index(tmp_path: Path, gone: int) -> None:
    paths = write_sharded(tmp_path, TENSORS, 4, index=False)
    paths[gone].unlink()
    message = refusal(tmp_path)
    assert "found 3 of 4 shards" in message
    assert paths[gone].name in message
    assert ("incomplete download" in message) == (gone == 3)


@pytest.mark.parametrize("index", [True, False])
def test_every_missing_shard_is_listed(tmp_path: Path, index: bool) -> None:
    paths = write_sharded(tmp_path, TENSORS, 8, index)
    for path in paths[2:]:
        path.unlink()
    message = refusal(tmp_path)
    for path in paths[2:]:
        assert path.name in message


def test_a_claimed_total_that_is_absurd(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model-00001-of-999999.safetensors", TENSORS)
    message = refusal(tmp_path)
    assert "1 of 999999" in message
    assert len(message) < 20_000


def test_numbers_beyond_the_total_and_repeated_numbers(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 2, index=False)
    (tmp_path / "model-00003-of-00002.safetensors").touch()
    assert "model-00003-of-00002" in refusal(tmp_path)
    (tmp_path / "model-00003-of-00002.safetensors").rename(tmp_path / "model-1-of-2.safetensors")
    assert "same number" in refusal(tmp_path)


def test_numbering_from_zero(tmp_path: Path) -> None:
    for i, path in enumerate(write_sharded(tmp_path, TENSORS, 2, index=False)):
        path.rename(tmp_path / f"model-0000{i}-of-00002.safetensors")
    assert read_shards(tmp_path).keys() == TENSORS.keys()


@pytest.mark.parametrize(
    "other",
    [
        "out-00000.safetensors",
        "model.safetensors",
        "out-1-of-1.safetensors",
        "model-1-of-3.safetensors",
    ],
)
def test_mixed_naming_without_an_index(tmp_path: Path, other: str) -> None:
    write_sharded(tmp_path, TENSORS, 2, index=False)
    write_tensors(tmp_path / other, {"x": np.zeros(1, np.float32)})
    message = refusal(tmp_path)
    assert "more than one naming scheme" in message
    assert other in message


def test_files_of_another_total_beside_an_index(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 2)
    (tmp_path / "model-00001-of-00003.safetensors").touch()
    assert "model-00001-of-00003.safetensors" in refusal(tmp_path)


def test_an_index_that_forgot_shards_on_disk(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 4)
    edit_index(tmp_path, lambda m: [m.pop(n) for n in list(m) if m[n] < "model-00003"])
    assert "index does not know model-00001-of-00004.safetensors" in refusal(tmp_path)


def test_unrelated_files_beside_an_index_are_ignored(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 2)
    (tmp_path / "consolidated-00001-of-00001.safetensors").touch()
    (tmp_path / "model-00002-of-00002.safetensors.part").touch()
    assert read_shards(tmp_path).keys() == TENSORS.keys()


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
def test_a_tensor_in_two_shards(tmp_path: Path, index: bool, backwards: bool) -> None:
    paths = write_sharded(tmp_path, TENSORS, 2, index)
    name = "model.norm.weight"
    twice = {"z": np.zeros(1, np.float32), name: TENSORS[name]}
    write_tensors(paths[1], twice)
    if backwards:  # created last, so that some file systems list it first
        paths[0].rename(tmp_path / "x")
        (tmp_path / "x").rename(paths[0])
    message = refusal(tmp_path)
    assert f"'{name}' is in both {paths[0].name} and {paths[1].name}" in message


def test_the_order_of_the_file_system_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sharded(tmp_path, TENSORS, 4, index=False)
    expected = list(read_shards(tmp_path).items())
    listed = sorted(os.listdir(tmp_path), reverse=True)
    monkeypatch.setattr(os, "listdir", lambda _: listed)
    assert list(read_shards(tmp_path).items()) == expected


def test_an_index_that_contradicts_the_files(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 2)
    edit_index(tmp_path, lambda m: m.update({"extra": "model-00001-of-00002.safetensors"}))
    assert "'extra' is missing; the index says" in refusal(tmp_path)
    edit_index(tmp_path, lambda m: m.pop("extra"))
    edit_index(tmp_path, lambda m: m.update({"model.norm.weight": m[list(m)[-1]]}))
    assert "but the index says" in refusal(tmp_path)


@pytest.mark.parametrize(
    "file",
    [
        "../x.safetensors",
        "/x.safetensors",
        "a\\b.safetensors",
        "x.bin",
        "",
        None,
        3,
        ["x.safetensors"],
        "\0.safetensors",
    ],
)
def test_file_names_in_an_index(tmp_path: Path, file: Any) -> None:
    write_sharded(tmp_path, TENSORS, 2)
    edit_index(tmp_path, lambda m: m.update({"model.norm.weight": file}))
    assert "'model.norm.weight'" in refusal(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"weight_map": {}}',
        '{"weight_map": []}',
        '{"weight_map": null}',
        "{" * 100_000,
    ],
)
def test_a_damaged_index(tmp_path: Path, text: str) -> None:
    write_sharded(tmp_path, TENSORS, 2)
    (tmp_path / INDEX).write_text(text)
    assert INDEX in refusal(tmp_path)


def test_several_indexes(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 2)
    (tmp_path / "other.safetensors.index.json").write_text("{}")
    read_shards(tmp_path)
    (tmp_path / INDEX).rename(tmp_path / "another.safetensors.index.json")
    assert "several indexes" in refusal(tmp_path)


def test_damaged_shards_are_counted(tmp_path: Path) -> None:
    paths = write_sharded(tmp_path, TENSORS, 4)
    for path in paths[1:]:
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    message = refusal(tmp_path)
    assert paths[1].name in message
    assert "LFS pointer" in message
    assert "2 more damaged shards" in message


@pytest.mark.parametrize("kind", ["empty", "cut", "directory", "dangling link"])
def test_one_damaged_shard(tmp_path: Path, kind: str) -> None:
    path = write_sharded(tmp_path, TENSORS, 3)[1]
    data = path.read_bytes()
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "blob")
    else:
        path.write_bytes(b"" if kind == "empty" else data[:-1])
    assert str(path) in refusal(tmp_path)


def test_directories_without_a_model(tmp_path: Path) -> None:
    assert "no .safetensors files" in refusal(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(UnsupportedModelError, match=r"pytorch_model\.bin: PyTorch"):
        read_shards(tmp_path)
    assert "is a file" in refusal(tmp_path / "pytorch_model.bin")
    assert "no such directory" in refusal(tmp_path / "nothing")


@pytest.mark.parametrize("index", [True, False])
def test_one_bad_file_is_told_from_a_bad_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: bool
) -> None:
    write_sharded(tmp_path, trunk_tensors() | expert_tensors(), 3, index=index)
    shards = sorted(p for p in tmp_path.iterdir() if p.suffix == ".safetensors")
    bad = {shards[1]}
    own = files.read_range

    def failing(fd: int, path: Path, offset: int, nbytes: int) -> bytes:
        if path in bad:
            raise ReadError(f"{path} at byte {offset}: cannot be read")
        return own(fd, path, offset, nbytes)

    monkeypatch.setattr("colibri.container.header.read_range", failing)
    with pytest.raises(ReadError, match=rf"{shards[1].name} at byte 0.*the other 2 files can be"):
        read_shards(tmp_path)
    bad.update(shards[:1])
    with pytest.raises(ReadError, match=rf"{shards[0].name} at byte 0.*2 of 3 files cannot be"):
        read_shards(tmp_path)
    bad.update(shards)
    with pytest.raises(ReadError, match=r"none of its 3 files can be read.*mount"):
        read_shards(tmp_path)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n", "Git LFS"),
        (b"\n<!DOCTYPE html><html></html>", "HTML"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\0" * 40, "zeros"),
    ],
)
@pytest.mark.parametrize("name", ["model.safetensors.index.json", "config.json"])
def test_a_json_file_that_is_something_else(
    tmp_path: Path, name: str, content: bytes, kind: str
) -> None:
    write_sharded(tmp_path, trunk_tensors() | expert_tensors(), 2, index=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ContainerError, match=rf"{name}: no JSON file: it .*{kind}"):
        read_shards(tmp_path) if "index" in name else read_json(tmp_path / name)
