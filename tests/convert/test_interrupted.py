from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_kit import Model, dying, fast_directory, tree, write_checkpoint

from colibri.container.partfile import PartFile
from colibri.container.reader import open_container
from colibri.convert import ConvertProgress, convert
from colibri.errors import Cancelled, ColibriError, ConfigError, ContainerError

MODEL = Model()


def run(source: Path, destination: Path, **options: Any) -> Any:
    return convert(source, destination, weights=MODEL.weights, family="toy", **options)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "source", MODEL.tensors(), shards=3)


@pytest.fixture
def whole(source: Path, tmp_path: Path) -> dict[str, str]:
    """The files of a conversion in one go."""
    run(source, tmp_path / "whole")
    return tree(tmp_path / "whole")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    with fast_directory(tmp_path) as directory:
        yield directory


@pytest.mark.parametrize(("mode", "stride"), [("plain", 3), ("delete", 5), ("force", 7)])
def test_killed_at_any_instant_and_resumed(
    source: Path, whole: dict[str, str], work: Path, mode: str, stride: int
) -> None:
    shards = sorted(p.name for p in source.glob("*.safetensors"))
    states = dying(source, work, mode, stride)
    assert len(states) > 10
    assert [s["killed"] for s in states] == [True] * (len(states) - 1) + [False]
    deleted_early = 0
    for state in states:
        before, after = state["before"], state["after"]
        if mode != "force" and "colibri.json" in before["out"]:
            assert whole.items() <= before["out"].items(), state["n"]
        if mode == "delete" and before["source"] != shards:
            deleted_early += 1
            assert whole["trunk-00001-of-00001.safetensors"] in before["out"].values()
        assert not state["failed"], state["n"]
        assert after["out"] == whole, state["n"]
        assert after["source"] == ([] if mode == "delete" else shards)
    assert (deleted_early > 0) == (mode == "delete")


def test_killed_by_the_clock(source: Path, whole: dict[str, str], tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from convert_kit import Model\n"
        "from colibri.convert import convert\n"
        "print('go', flush=True)\n"
        "convert(Path(sys.argv[1]), Path(sys.argv[2]), weights=Model().weights, family='toy')\n"
    )
    command = [sys.executable, "-c", code, str(source), str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    for milliseconds in (2, 10, 25):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(milliseconds / 1000)
            process.kill()
    run(source, tmp_path / "out")
    assert tree(tmp_path / "out") == whole


def stop_after(calls: int) -> Callable[[], bool]:
    left = iter(range(calls))
    return lambda: next(left, None) is None


def test_cancelled_and_resumed(source: Path, whole: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    cancelled = 0
    for calls in range(1, 200, 4):
        try:
            run(source, out, cancelled=stop_after(calls))
            break
        except Cancelled:
            cancelled += 1
            assert not [n for n in tree(out) if n.endswith(".part")]
            with pytest.raises(ContainerError, match="unfinished conversion"):
                open_container(out, lambda config: MODEL.weights)
    assert cancelled > 3
    assert tree(out) == whole


def test_ctrl_c_leaves_no_temporary_file(source: Path, tmp_path: Path) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(source, tmp_path / "out", cancelled=interrupt)
    assert not list((tmp_path / "out").glob("*.part"))


def unfinished(source: Path, out: Path, **options: Any) -> None:
    """Stopped in the middle of the second expert layer."""
    files = [""]
    with pytest.raises(Cancelled):
        run(
            source,
            out,
            progress=lambda p: files.append(p.file),
            cancelled=lambda: files[-1].startswith("experts-L00002"),
            **options,
        )


def test_finished_shards_are_not_written_again(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    unfinished(source, out)
    kept = {p.name: p.stat().st_mtime_ns for p in out.glob("*.safetensors")}
    assert kept
    seen: list[ConvertProgress] = []
    run(source, out, progress=seen.append)
    assert {p.name: p.stat().st_mtime_ns for p in out.glob("*.safetensors")}.items() >= kept.items()
    assert seen[0].bytes_done > 0
    assert not {p.file for p in seen} & kept.keys()


def test_multipliers_of_a_packed_trunk_survive_a_stop(tmp_path: Path) -> None:
    tensors = MODEL.tensors(dtype="f32")
    tensors["lm_head.weight"] *= np.float32(1e-7)
    source = write_checkpoint(tmp_path / "source", tensors)
    unfinished(source, tmp_path / "out", store_trunk=8)
    manifest = run(source, tmp_path / "out", store_trunk=8)
    assert {p.name for p in manifest.packed if p.multiplier != 1} == {"lm_head.weight"}
    run(source, tmp_path / "whole", store_trunk=8)
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "int8-gs64"}, r"scheme was 'int4-gs64', now 'int8-gs64'.*--force"),
        ({"draft_scheme": "int4-gs64"}, "draft_scheme was 'int8-gs64', now 'int4-gs64'"),
        ({"store_trunk": 8}, "store_trunk was 'source', now '8'"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_other_parameters_are_refused(
    source: Path, tmp_path: Path, options: dict[str, Any], message: str, finished: bool
) -> None:
    out = tmp_path / "out"
    if finished:
        run(source, out)
    else:
        unfinished(source, out)
    before = tree(out)
    with pytest.raises(ConfigError, match=message):
        run(source, out, **options)
    assert tree(out) == before
    run(source, out, force=True, **options)
    fresh = tmp_path / "fresh"
    run(source, fresh, **options)
    assert tree(out) == tree(fresh)


@pytest.mark.parametrize("finished", [True, False])
def test_another_model_with_the_same_shapes_is_refused(
    source: Path, tmp_path: Path, finished: bool
) -> None:
    out = tmp_path / "out"
    if finished:
        run(source, out)
    else:
        unfinished(source, out)
    write_checkpoint(source, MODEL.tensors(seed=1), shards=3)
    with pytest.raises(ConfigError, match=r"source was|is not the file"):
        run(source, out)
    run(source, out, force=True)


def test_finished_says_so_and_changes_nothing(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run(source, out)
    before = {p: p.stat().st_mtime_ns for p in out.iterdir()}
    seen: list[ConvertProgress] = []
    assert run(source, out, progress=seen.append) == first
    assert [p.phase for p in seen] == ["already finished"]
    assert {p: p.stat().st_mtime_ns for p in out.iterdir()} == before


def test_finished_with_deleted_source(source: Path, tmp_path: Path) -> None:
    first = run(source, tmp_path / "out", delete_source=True)
    assert not list(source.glob("*.safetensors"))
    assert (source / "tokenizer.json").exists()
    assert run(source, tmp_path / "out") == first


def test_finished_but_a_file_was_cut(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(source, out)
    os.truncate(out / "experts-L00002-00001-of-00001.safetensors", 5000)
    with pytest.raises(ContainerError, match=r"experts-L00002.*--force"):
        run(source, out)


def test_a_finished_shard_that_vanished_is_made_again(
    source: Path, whole: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    unfinished(source, out)
    (out / "trunk-00001-of-00001.safetensors").unlink()
    run(source, out)
    assert tree(out) == whole


def test_force_keeps_the_outputs_when_the_source_is_gone(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(source, out, delete_source=True)
    before = tree(out)
    with pytest.raises(ColibriError, match="safetensors"):
        run(source, out, force=True)
    assert tree(out) == before


def test_source_vanished_while_needed(source: Path, tmp_path: Path) -> None:
    unfinished(source, tmp_path / "out")
    (source / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ContainerError, match=r"model-00002-of-00003.*still needed"):
        run(source, tmp_path / "out")


@pytest.mark.parametrize("text", ["", "{", '{"version": 9}', '{"version": 1, "params": 3}', "[]"])
def test_damaged_journal(source: Path, tmp_path: Path, text: str) -> None:
    out = tmp_path / "out"
    unfinished(source, out)
    (out / ".coli_convert.json").write_text(text)
    with pytest.raises(ContainerError, match=r"coli_convert\.json.*--force"):
        run(source, out)
    run(source, out, force=True)


@pytest.mark.parametrize("damage", ["remove", "edit"])
def test_damaged_inventory(source: Path, tmp_path: Path, damage: str) -> None:
    out = tmp_path / "out"
    unfinished(source, out)
    path = out / ".coli_convert_source.json"
    if damage == "remove":
        path.unlink()
    else:
        path.write_text(path.read_text().replace("BF16", "F16"))
    with pytest.raises(ContainerError, match="--force"):
        run(source, out)


@pytest.mark.parametrize("bad", [1, 2, 4])
def test_an_output_that_reads_back_wrong_while_the_next_is_made(
    source: Path,
    whole: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bad: int,
) -> None:
    """Outputs before it are kept, it and those after it are not."""
    out = tmp_path / "out"
    shards = 0
    is_as_written = PartFile.is_as_written

    def check(file: PartFile, step: Callable[[int], None]) -> bool:
        nonlocal shards
        shards += file._path.name.endswith(".safetensors.part")
        return is_as_written(file, step) and shards != bad

    with monkeypatch.context() as m:
        m.setattr(PartFile, "is_as_written", check)
        with pytest.raises(ContainerError, match="read back differs"):
            run(source, out)
    made = [n for n in tree(out) if n.endswith(".safetensors")]
    assert len(made) == bad - 1
    journal = json.loads((out / ".coli_convert.json").read_text())
    assert {n for n in journal["finished"] if n.endswith(".safetensors")} == set(made)
    assert not [n for n in tree(out) if n.endswith(".part")]
    run(source, out)
    assert tree(out) == whole
