from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_kit import Model, Tensors, tree, write_checkpoint

from colibri.container.lock import locked
from colibri.container.spec import JOURNAL_NAME, MANIFEST_NAME
from colibri.convert import convert
from colibri.errors import (
    CapacityError,
    ConfigError,
    ContainerError,
    UnsupportedModelError,
)

MODEL = Model()
GATE = "model.layers.1.mlp.experts.2.gate_proj.weight"


def run(source: Path, destination: Path, **options: Any) -> Any:
    return convert(source, destination, weights=MODEL.weights, family="toy", **options)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "source", MODEL.tensors(), shards=2)


def refused(tmp_path: Path, tensors: Tensors, kind: type[Exception], message: str) -> None:
    source = write_checkpoint(tmp_path / "source", tensors)
    with pytest.raises(kind, match=message):
        run(source, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*")), "nothing may be written before the check"


def test_unknown_tensors(tmp_path: Path) -> None:
    tensors = MODEL.tensors() | {f"model.extra.{i}": np.zeros(2, np.float32) for i in range(9)}
    refused(tmp_path, tensors, UnsupportedModelError, r"9 tensors are unknown.*extra\.0.*1 more")


def test_no_experts_at_all(tmp_path: Path) -> None:
    tensors = {n: t for n, t in MODEL.tensors().items() if ".experts." not in n}
    refused(tmp_path, tensors, ContainerError, "no routed experts")


def test_missing_trunk_tensor(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    del tensors["model.norm.weight"]
    refused(tmp_path, tensors, ContainerError, r"lacks 1 tensor .*model\.norm\.weight")


def test_trunk_shape(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    tensors["model.norm.weight"] = np.zeros(7, np.uint16)
    refused(tmp_path, tensors, ContainerError, r"model\.norm\.weight.*\[7\].*\[136\]")


def test_missing_expert_matrix(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    del tensors[GATE]
    refused(tmp_path, tensors, ContainerError, "layer 1: 1 expert matrix is missing: expert 2 gate")


def test_missing_layer(tmp_path: Path) -> None:
    tensors = {n: t for n, t in MODEL.tensors().items() if ".2.mlp.experts" not in n}
    refused(tmp_path, tensors, ContainerError, "routed experts of these layers are missing: 2")


def test_half_a_draft_layer(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    del tensors["model.layers.3.mlp.experts.0.up_proj.weight"]
    refused(tmp_path, tensors, ContainerError, "layer 3: .* expert 0 up")


def test_expert_shape(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    tensors[GATE] = tensors[GATE].T.copy()
    refused(tmp_path, tensors, ContainerError, r"experts\.2\.gate_proj.*\[136, 40\].*\[40, 136\]")


def test_expert_beyond_the_config(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    tensors[GATE.replace("experts.2", "experts.3")] = tensors[GATE]
    refused(tmp_path, tensors, ContainerError, r"experts\.3\.gate_proj.*3 experts a layer")


def test_experts_in_a_layer_without(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    tensors[GATE.replace("layers.1", "layers.0")] = tensors[GATE]
    refused(tmp_path, tensors, ContainerError, "no routed experts in this layer")


def test_fused_and_single_at_once(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    refused(tmp_path, tensors | MODEL.fused(tensors), ContainerError, "more than once")


def test_the_same_expert_by_two_names(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    tensors[GATE.replace("gate_proj", "w1")] = tensors[GATE]
    refused(tmp_path, tensors, ContainerError, "hold the same weights")


def test_dtypes_of_later_formats(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    tensors[GATE] = np.zeros((40, 136), np.uint8)
    tensors[GATE + "_scale_inv"] = np.ones((1, 1), np.float32)
    refused(tmp_path, tensors, UnsupportedModelError, r"experts\.2\.gate_proj.*U8 weights are")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize(
    ("name", "store_trunk"),
    [
        (GATE, "source"),
        ("model.layers.2.mlp.experts.1.down_proj.weight", "source"),
        ("lm_head.weight", "source"),
        ("lm_head.weight", 4),
        ("model.norm.weight", 8),
    ],
)
def test_weights_that_are_not_finite(
    tmp_path: Path, value: float, dtype: str, name: str, store_trunk: Any
) -> None:
    tensors = MODEL.tensors(dtype=dtype)
    bad = tensors[name].reshape(-1)
    if dtype == "bf16":
        bad[77] = np.array(value, np.float32).view(np.uint32) >> 16
    else:
        bad[77] = value
    source = write_checkpoint(tmp_path / "source", tensors)
    with pytest.raises(ContainerError, match=rf"{name}.*element 77 is not finite"):
        run(source, tmp_path / "out", store_trunk=store_trunk)
    assert not list((tmp_path / "out").glob("*.part"))
    assert "colibri.json" not in tree(tmp_path / "out")


def test_fused_weights_that_are_not_finite(tmp_path: Path) -> None:
    tensors = MODEL.fused(MODEL.tensors(dtype="f32"))
    tensors["model.layers.2.mlp.experts.gate_up_proj"][1, 45, 3] = np.nan
    source = write_checkpoint(tmp_path / "source", tensors)
    element = (1 * 80 + 45) * 136 + 3
    with pytest.raises(ContainerError, match=rf"gate_up_proj.*element {element} is"):
        run(source, tmp_path / "out")


@pytest.mark.parametrize(
    ("option", "value"),
    [("scheme", "int3-gs64"), ("draft_scheme", 4), ("store_trunk", 2), ("store_trunk", True)],
)
def test_unknown_options(source: Path, tmp_path: Path, option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{option}: .*source|{option}: .*int4-gs64"):
        run(source, tmp_path / "out", **{option: value})


def test_source_is_missing_or_a_file(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="no such directory"):
        run(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(ContainerError, match="is a file"):
        run(source / "model-00001-of-00002.safetensors", tmp_path / "out")


def test_source_is_the_destination(source: Path, tmp_path: Path) -> None:
    before = tree(source)
    with pytest.raises(ConfigError, match="same directory"):
        run(source, source, force=True)
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(ConfigError, match="same directory"):
        run(source, tmp_path / "link", force=True)
    assert tree(source) == before


def test_destination_is_a_file(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match="is a file"):
        run(source, tmp_path / "out")
    with pytest.raises(ContainerError, match="cannot be written"):
        run(source, tmp_path / "out" / "below")


@pytest.mark.parametrize("force", [True, False])
def test_destination_holds_something_else(source: Path, tmp_path: Path, force: bool) -> None:
    other = write_checkpoint(tmp_path / "other", MODEL.tensors(seed=9))
    before = tree(other)
    with pytest.raises(ConfigError, match=r"LICENSE|model\.safetensors"):
        run(source, other, force=force)
    assert tree(other) == before


def test_destination_cannot_be_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = os.open

    def read_only(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opening(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(ContainerError, match="cannot be written: Read-only file system"):
        run(source, tmp_path / "out")


def test_hidden_files_and_a_fresh_mount_are_no_obstacle(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "lost+found").mkdir(parents=True)
    (tmp_path / "out" / ".coli_usage").write_text("{}")
    run(source, tmp_path / "out")
    assert (tmp_path / "out" / ".coli_usage").exists()


def test_two_conversions_at_once(source: Path, tmp_path: Path) -> None:
    with (
        locked(tmp_path / "out", "conversion"),
        pytest.raises(ConfigError, match="another conversion"),
    ):
        run(source, tmp_path / "out")
    run(source, tmp_path / "out")


def test_links_are_not_deleted(source: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in source.iterdir():
        (linked / path.name).symlink_to(path)
    with pytest.raises(ConfigError, match="symbolic link"):
        run(linked, tmp_path / "out", delete_source=True)
    assert not (tmp_path / "out").exists()
    run(linked, tmp_path / "out")
    assert len(list(linked.glob("*.safetensors"))) == 2


def test_a_snapshot_of_the_hubs_cache_is_not_deleted(source: Path, tmp_path: Path) -> None:
    """Its files are links; what they lead to may belong to another snapshot too."""
    snapshot, blobs = tmp_path / "snapshots" / "c0ffee", tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(source.iterdir())):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(Path("..", "..", "blobs", str(number)))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=r"the hub's cache: `hf cache`"):
        run(snapshot, tmp_path / "out", delete_source=True)
    assert {path: path.read_bytes() for path in before} == before


def test_what_cannot_be_deleted_is_said_before_anything_is_done(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != source)
    with pytest.raises(ConfigError, match="cannot be written, so nothing can be deleted in it"):
        run(source, tmp_path / "out", delete_source=True)
    assert not (tmp_path / "out").exists()


def test_a_file_that_will_not_go_stops_and_the_same_goes_on_without_deleting(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def failing(path: Path, missing_ok: bool = False) -> None:
        if path.parent == source:
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", failing)
    with pytest.raises(ContainerError, match=r"cannot be deleted: .*without deleting"):
        run(source, tmp_path / "out", delete_source=True)
    run(source, tmp_path / "out")
    assert (tmp_path / "out" / MANIFEST_NAME).exists()


def test_sources_are_deleted_only_after_their_outputs(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that corrupts the second layer: its source shards must survive."""
    write = os.write
    current = [""]

    def flip(fd: int, data: memoryview) -> int:
        bad = current[0].startswith("experts-L00002") and len(data) > 4096
        return write(fd, bytes(data[:-1]) + bytes([data[-1] ^ 1]) if bad else data)

    monkeypatch.setattr(os, "write", flip)
    with pytest.raises(ContainerError, match=r"experts-L00002.*differs"):
        run(
            source,
            tmp_path / "out",
            delete_source=True,
            progress=lambda p: current.__setitem__(0, p.file),
        )
    assert len(list(source.glob("*.safetensors"))) == 2


def test_full_disk_in_mid_write(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(source, tmp_path / "whole")
    write = os.write
    left = [60_000]

    def full(fd: int, data: memoryview) -> int:
        if len(data) > left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= len(data)
        return write(fd, data)

    with monkeypatch.context() as m:
        m.setattr(os, "write", full)
        m.setattr("colibri.container.writer.free_bytes", lambda directory: 1000)
        with pytest.raises(CapacityError, match=r"trunk-.* 1000 are free, \d+ bytes are missing"):
            run(source, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.part"))
    run(source, tmp_path / "out")
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


def test_too_little_space_is_said_before_writing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colibri.convert.destination.free_bytes", lambda directory: 5000)
    with pytest.raises(CapacityError, match=r"needs (\d+) bytes, 5000 are free: \d+ bytes are"):
        run(source, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.safetensors"))


def test_space_is_looked_at_before_each_shard(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([10**9, 10**9, 10**9, 100])
    monkeypatch.setattr("colibri.convert.destination.free_bytes", lambda directory: next(answers))
    with pytest.raises(CapacityError, match=r"experts-L00002\S* needs \d+ bytes, 100 are free"):
        run(source, tmp_path / "out")
    assert (tmp_path / "out" / "experts-L00001-00001-of-00001.safetensors").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(disk)]
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root on Linux")
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("checked", [True, False])
def test_a_really_small_disk(
    source: Path, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    out = small_disk / "out"
    with monkeypatch.context() as m:
        if not checked:
            m.setattr("colibri.convert.loop.check_space", lambda *args: None)
        with pytest.raises(CapacityError, match=r"\d+ bytes are missing"):
            run(source, out)
    assert not list(out.glob("*.part"))
    command = ["mount", "-o", "remount,size=2m", str(small_disk)]
    subprocess.run(command, check=True)
    run(source, out)
    run(source, tmp_path / "whole")
    assert tree(out) == tree(tmp_path / "whole")


def test_side_files(source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    extra = {
        "tokenizer.model": "copied", "vocab.json": "copied", "merges.txt": "copied",
        "special_tokens_map.json": "copied", "chat_template.jinja": "copied",
        "LICENSE.txt": "copied", "modeling_toy.py": "left", "pytorch_model.bin": "left",
        "notes.json": "left",
    }  # fmt: skip
    for name, text in extra.items():
        (source / name).write_text(text)
    manifest = run(source, tmp_path / "out")
    for name, text in extra.items():
        assert (tmp_path / "out" / name).exists() == (text == "copied"), name
    listed = {f.name for f in manifest.files}
    assert {n for n, text in extra.items() if text == "copied"} < listed
    assert not caplog.records


def test_each_missing_side_file_is_named(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (source / name).unlink()
    with caplog.at_level(logging.WARNING):
        run(source, tmp_path / "out")
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "template"):
        assert sum(name in record.getMessage() for record in caplog.records) == 1, name


def test_no_config(source: Path, tmp_path: Path) -> None:
    (source / "config.json").unlink()
    with pytest.raises(ContainerError, match=r"config\.json"):
        run(source, tmp_path / "out")


def test_a_side_file_that_was_never_downloaded(source: Path, tmp_path: Path) -> None:
    (source / "tokenizer.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ContainerError, match=r"tokenizer\.json: it is a Git LFS pointer"):
        run(source, tmp_path / "out")


def test_incomplete_source(source: Path, tmp_path: Path) -> None:
    (source / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ContainerError, match="model-00002-of-00002"):
        run(source, tmp_path / "out")


@pytest.mark.parametrize("finished", [True, False])
def test_a_source_that_is_a_conversion(source: Path, tmp_path: Path, finished: bool) -> None:
    (source / (MANIFEST_NAME if finished else JOURNAL_NAME)).write_text("{}")
    with pytest.raises(ConfigError, match="source: is a conversion already"):
        run(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
