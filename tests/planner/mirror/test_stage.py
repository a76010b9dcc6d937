"""Staging: the right bytes, whatever stops it, and nothing of the user's touched."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colibri.container.lock import locked
from colibri.container.mirror import RECORDS_SUFFIX, survey
from colibri.container.receipt import RECEIPT_NAME, STAGING_NAME
from colibri.errors import CapacityError, ConfigError, ContainerError
from colibri.planner.mirror.stage import Wishes, plan_mirror, warnings
from mirror_kit import experts_bytes, layers_of, model_at, slot_image, stage, tree

OPEN = os.open
VARIANTS = pytest.mark.parametrize("variant", ["source", "int4"])


def images(spans: Any) -> bytes:
    """What these reads bring into a slot; zeros where they bring nothing."""
    slot = bytearray(spans[-1].slot_offset + spans[-1].nbytes)
    for s in spans:
        with open(s.file, "rb") as file:
            file.seek(s.offset)
            slot[s.slot_offset : s.slot_offset + s.needed] = file.read(s.needed)
    return bytes(slot)


@VARIANTS
@pytest.mark.parametrize("family", ["olmoe", "glm_moe_dsa"])
def test_hot_records_bring_what_the_model_does(
    model_of: Any, tmp_path: Path, family: str, variant: str
) -> None:
    path = model_of(family, variant)
    layers = layers_of(path)
    half = experts_bytes(layers) // 2
    plan = stage(path, tmp_path, budget=half, file_bytes=half // 3)
    assert len(plan.files) >= 3
    assert sum(p.stat().st_size for p in tmp_path.glob("*.colirec")) <= half
    copies = survey(tmp_path, layers, model_at(path).identity)
    found = 0
    for n, layer in layers.items():
        for expert in range(layer.num_experts):
            spans = copies.spans(layer, expert)
            if spans is None:
                assert (n, expert) not in {k for f in plan.files for k in f.experts}
                continue
            assert images(spans) == images(layer.reads(expert))
            assert len(images(spans)) == slot_image(layer, expert)
            assert all(s.file.parent == tmp_path and s.offset % 4096 == 0 for s in spans)
            found += 1
    assert found == plan.experts


@VARIANTS
def test_shards_are_byte_for_byte(model_of: Any, tmp_path: Path, variant: str) -> None:
    path = model_of("olmoe", variant)
    stage(path, tmp_path, "shards")
    names = sorted(p.name for p in tmp_path.glob("*.safetensors"))
    assert names
    for name in names:
        assert (tmp_path / name).read_bytes() == (path / name).read_bytes()
    layers = layers_of(path)
    copies = survey(tmp_path, layers, model_at(path).identity)
    for layer in layers.values():
        for expert in range(layer.num_experts):
            assert copies.spans(layer, expert) is not None
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*names, RECEIPT_NAME])


def test_a_larger_budget_adds_to_what_is_there(model_of: Any, tmp_path: Path) -> None:
    path = model_of("olmoe", "int4")
    layers = layers_of(path)
    third = experts_bytes(layers) // 3
    first = stage(path, tmp_path, budget=third)
    before = tree(tmp_path)
    second = stage(path, tmp_path, budget=2 * third)
    assert first.experts < second.experts < second.experts_total
    assert sum(p.stat().st_size for p in tmp_path.glob("*.colirec")) <= 2 * third
    after = tree(tmp_path)
    assert all(after[n] == h for n, h in before.items() if n != RECEIPT_NAME)
    assert stage(path, tmp_path).experts == second.experts_total
    assert stage(path, tmp_path).files == ()


def test_stopped_anywhere_it_goes_on(model_of: Any, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    path = model_of("olmoe", "int4")
    whole = tmp_path / "whole"
    stage(path, whole, file_bytes=1 << 16)
    stopped = 0
    while True:
        target = tmp_path / f"stopped{stopped}"
        left = [stopped]

        def step(nbytes: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Stop

        try:
            stage(path, target, file_bytes=1 << 16, step=step)
            break
        except Stop:
            assert not (target / RECEIPT_NAME).exists()
            assert not list(target.glob("*.part"))
        stage(path, target, file_bytes=1 << 16)
        assert tree(target) == tree(whole)
        stopped += 1
    assert stopped > 5


@pytest.mark.parametrize("name", ["write", "fsync", "replace", "open", "mkdir"])
def test_a_full_disk_at_every_write(
    model_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each such call in turn fails once for want of space: an error that says so, nothing half
    done under a final name, and the next run ends as one that was never disturbed."""
    path = model_of("olmoe", "int4")
    whole = tmp_path / "whole"
    stage(path, whole, file_bytes=1 << 17)
    expected = tree(whole)
    for n in range(1000):
        target = tmp_path / f"full-{n}"
        with monkeypatch.context() as m:
            m.setattr(os, name, failing(getattr(os, name), n))
            try:
                stage(path, target, file_bytes=1 << 17)
                break
            except CapacityError as error:
                said = str(error)
        assert re.search(f"{target}.*(full|quota)", said)
        if target.exists():
            found = tree(target)
            assert all(expected[k] == v for k, v in found.items() if k.endswith(RECORDS_SUFFIX))
            assert RECEIPT_NAME not in found or found[RECEIPT_NAME] == expected[RECEIPT_NAME]
        stage(path, target, file_bytes=1 << 17)
        assert tree(target) == expected
    assert n > 0


def failing(operation: Callable[..., Any], n: int) -> Callable[..., Any]:
    left = [n]

    def call(*args: Any, **kwargs: Any) -> Any:
        if operation is OPEN and not args[1] & os.O_CREAT:
            return operation(*args, **kwargs)
        left[0] -= 1
        if left[0] == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return operation(*args, **kwargs)

    return call


def test_a_file_of_the_users_in_the_way(model_of: Any, tmp_path: Path) -> None:
    path = model_of("olmoe", "int4")
    stage(path, tmp_path / "other", "shards")
    name = min(p.name for p in (tmp_path / "other").glob("*.safetensors"))
    target = tmp_path / "target"
    target.mkdir()
    for content in (b"mine", (path / name).read_bytes()[:-1] + b"x"):
        (target / name).write_bytes(content)
        with pytest.raises(ConfigError, match=f"{name}: was there before and is not what"):
            stage(path, target, "shards")
        assert (target / name).read_bytes() == content
    (target / name).unlink()
    part = target / f"{name}.part"
    part.write_bytes(b"half a download of mine")
    with pytest.raises(ConfigError, match=r"part: was there before, and staging would overwrite"):
        stage(path, target, "shards")
    assert part.read_bytes() == b"half a download of mine"


def test_a_copy_that_was_there_is_taken_as_it_is(model_of: Any, tmp_path: Path) -> None:
    path = model_of("olmoe", "int4")
    shards = sorted(p for p in path.glob("experts-*.safetensors"))
    shutil.copy(shards[0], tmp_path)
    before = (tmp_path / shards[0].name).stat()
    stage(path, tmp_path, "shards")
    after = (tmp_path / shards[0].name).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert all((tmp_path / p.name).exists() for p in shards)


def test_files_that_are_not_ours_stay(model_of: Any, tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"sea")
    path = model_of("olmoe", "int4")
    plan = stage(path, tmp_path)
    (tmp_path / plan.files[0].name).unlink()  # as a user does to stage anew
    stage(path, tmp_path)
    assert (tmp_path / "holiday.jpg").read_bytes() == b"sea"
    assert not (tmp_path / STAGING_NAME).exists()


def test_a_damaged_source_is_not_copied(model_of: Any, tmp_path: Path) -> None:
    path = shutil.copytree(model_of("olmoe", "int4"), tmp_path / "model")
    shard = max(path.glob("experts-*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    for unit, what in (("records", "checksum does not match"), ("shards", "what the manifest")):
        with pytest.raises(ContainerError, match=rf"{shard.name}: .*{what}"):
            stage(path, tmp_path / unit, unit)  # type: ignore[arg-type]
        assert not (tmp_path / unit / RECEIPT_NAME).exists()
        assert not list((tmp_path / unit).glob("*.part"))


def test_a_mirror_of_another_model_is_refused(model_of: Any, tmp_path: Path) -> None:
    stage(model_of("olmoe", "int4"), tmp_path)
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match="is of another model"):
        stage(model_of("olmoe", "int8"), tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "is empty"),
        (b'{"version": 2}', "version 2 is not one"),
        (b'{"version": 1}', "is damaged"),
        (b'{"version": 1, "created": "", "source": "", "model": "", "files": []}', "checksum"),
    ],
)
@pytest.mark.parametrize("name", [RECEIPT_NAME, STAGING_NAME])
def test_a_damaged_receipt_is_refused(
    model_of: Any, tmp_path: Path, name: str, text: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(ContainerError, match=f"{name}: .*{says}"):
        stage(model_of("olmoe", "int4"), tmp_path)
    assert (tmp_path / name).read_bytes() == text


def test_places_that_cannot_be(model_of: Any, tmp_path: Path) -> None:
    path = model_of("olmoe", "int4")
    with pytest.raises(ConfigError, match="the model's own directory"):
        stage(path, path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file; give a directory"):
        stage(path, tmp_path / "file")
    with pytest.raises(ContainerError, match="cannot be written: Not a directory"):
        stage(path, tmp_path / "file" / "below")


def test_two_at_once(model_of: Any, tmp_path: Path) -> None:
    with locked(tmp_path, "x"), pytest.raises(ConfigError, match="another coli mirror stage"):
        stage(model_of("olmoe", "int4"), tmp_path)


def test_without_counts_there_is_no_hot(model_of: Any, tmp_path: Path) -> None:
    path = model_of("olmoe", "int4")
    half = experts_bytes(layers_of(path)) // 2
    with pytest.raises(ConfigError, match=r"which experts are hot is not known.*--unit shards"):
        stage(path, tmp_path / "a", budget=half, heat={})
    assert stage(path, tmp_path / "b", heat={}).share is None
    assert stage(path, tmp_path / "c", "shards", budget=half, heat={}).files


def test_the_reserve_stays_free(
    model_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = model_of("olmoe", "int4")
    free = [experts_bytes(layers_of(path)) // 2 + 10_000]
    monkeypatch.setattr("colibri.hardware.probe.free_bytes", lambda path: free[0])
    plan = stage(path, tmp_path / "a", reserve_bytes=10_000)
    assert 0 < plan.new_bytes <= free[0] - 10_000
    # Others write meanwhile: looked at again before each file.
    monkeypatch.setattr("colibri.planner.mirror.stage.free_bytes", lambda path: 15_000)
    with pytest.raises(CapacityError, match=r"10000 are to stay free; 15000 are free: \d+ bytes"):
        stage(path, tmp_path / "b", reserve_bytes=10_000)


def test_planning_writes_nothing(model_of: Any, tmp_path: Path) -> None:
    source = model_at(model_of("olmoe", "int4"))
    plan = plan_mirror(source, tmp_path / "new", {}, Wishes("shards", None, 0))
    assert plan.files
    assert list(tmp_path.iterdir()) == []


def test_the_same_drive_is_told(model_of: Any, tmp_path: Path) -> None:
    path = model_of("olmoe", "int4")
    (warning,) = warnings(path, path / "sub" / "new")
    assert "same drive" in warning
    assert warnings(path, Path("/proc")) == []
