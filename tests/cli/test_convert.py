from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from colibri.convert.progress import ConvertProgress
from colibri.errors import Cancelled
from colibri.llm import embedded_model
from golden import tiny


@pytest.fixture
def source() -> str:
    return str(tiny("olmoe"))


def test_convert_then_info_then_run(coli: Any, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "converted")
    outcome = coli("convert", source, target)
    assert (outcome.code, outcome.out) == (0, "")
    assert re.search(
        r"converted: .* in 6 files, ready; .* in and .* out in .*: .* MB/s in", outcome.err
    )
    assert "no tokenizer.json" in outcome.err
    info = coli("info", target)
    for fact in (
        "no tokenizer.json",
        "olmoe",
        "converted by colibri",
        "int4-gs64",
        "f32 trunk",
        "8 a layer, 2 chosen",
    ):
        assert fact in info.out
    outcome = coli("run", "-q", "--model", target, "--ids", "--max-tokens", "3", "1 2 3")
    assert (outcome.code, len(outcome.out.split())) == (0, 3)
    assert coli("run", "-q", "--model", target, "--ids", "1 999999").code == 2
    assert "tokenizer, chat template\n" in coli("info").out


def test_finished_conversion_is_left_alone(coli: Any, source: str, tmp_path: Path) -> None:
    target = tmp_path / "converted"
    coli("convert", "-q", source, str(target))
    before = {p.name: p.stat().st_mtime_ns for p in target.iterdir()}
    outcome = coli("convert", source, str(target))
    assert outcome.code == 0
    assert "already converted" in outcome.err
    assert {p.name: p.stat().st_mtime_ns for p in target.iterdir()} == before
    outcome = coli("convert", source, str(target), "--scheme", "int8-gs64")
    assert outcome.code == 2
    assert "int8-gs64" in outcome.err


def test_stored_trunk(coli: Any, source: str, tmp_path: Path) -> None:
    coli("convert", "-q", source, str(tmp_path / "c"), "--store-trunk", "8")
    assert "int8-gs64" in coli("info", str(tmp_path / "c")).out


def test_interrupt_says_how_to_go_on(
    coli: Any, source: str, tmp_path: Path, monkeypatch: Any
) -> None:
    def convert(*_: Any, cancelled: Any, **__: Any) -> None:
        assert not cancelled()
        os.kill(os.getpid(), signal.SIGINT)
        assert cancelled()
        raise Cancelled("stopped")

    monkeypatch.setattr("colibri.convert.loop.convert", convert)
    before = signal.getsignal(signal.SIGINT)
    outcome = coli("convert", source, str(tmp_path / "c"))
    assert outcome.code == 130
    assert "run the same command" in outcome.err
    assert signal.getsignal(signal.SIGINT) is before


def test_second_interrupt_insists(coli: Any, source: str, tmp_path: Path, monkeypatch: Any) -> None:
    def convert(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("colibri.convert.loop.convert", convert)
    assert coli("convert", source, str(tmp_path / "c")).code == 130


def test_progress_lines(coli: Any, source: str, tmp_path: Path, monkeypatch: Any) -> None:
    def convert(*_: Any, progress: Any, **__: Any) -> Any:
        progress(ConvertProgress("experts", "e.safetensors", 10**9, 4 * 10**9, 2, 5 * 10**8, 6))
        return SimpleNamespace(files=[])

    monkeypatch.setattr("colibri.cli.progress._SPARSE_SECONDS", 0.0)
    monkeypatch.setattr("colibri.convert.loop.convert", convert)
    line = "1.00 GB of 4.00 GB, 500.0 MB/s, about 6.00 s left, e.safetensors\n"
    assert line in coli("convert", source, str(tmp_path / "c")).err
    assert line not in coli("convert", "-q", source, str(tmp_path / "c")).err


KINDS = ["missing", "file", "empty", "gguf", "gguf file", "bin", "unsupported", "no type", "html"]


@pytest.mark.parametrize("command", ["info", "run", "chat", "convert"])
@pytest.mark.parametrize("kind", KINDS)
def test_bad_model_paths(coli: Any, tmp_path: Path, command: str, kind: str) -> None:
    path, code, says = _bad_path(tmp_path, kind)
    arguments = {
        "info": ["info", str(path)],
        "run": ["run", "-q", "-m", str(path), "x"],
        "chat": ["chat", "-m", str(path)],
        "convert": ["convert", str(path), str(tmp_path / "target")],
    }[command]
    outcome = coli(*arguments, stdin=["hello"])
    assert outcome.code == code, outcome.err
    assert says in outcome.err
    assert outcome.out == ""
    assert "internal" not in outcome.err


def _bad_path(folder: Path, kind: str) -> tuple[Path, int, str]:
    path = folder / "model"
    if kind == "missing":
        return path, 4, "no such directory"
    if kind == "file":
        path.write_text("x")
        return path, 4, "is a file"
    path.mkdir()
    if kind == "empty":
        return path, 4, "no config.json"
    if kind.startswith("gguf"):
        (path / "q4.gguf").write_text("GGUF")
        return path / "q4.gguf" if kind == "gguf file" else path, 3, "GGUF"
    if kind == "bin":
        (path / "config.json").write_text((tiny("olmoe") / "config.json").read_text())
        (path / "tokenizer.json").write_text("{}")
        (path / "chat_template.jinja").write_text("x")
        (path / "pytorch_model.bin").write_text("PK")
        return path, 3, "PyTorch"
    if kind == "html":
        (path / "config.json").write_text("<html>sign in</html>")
        return path, 4, "config.json"
    if kind == "no type":
        (path / "config.json").write_text("{}")
        return path, 2, "model_type"
    (path / "config.json").write_text('{"model_type": "llama"}')
    return path, 3, "olmoe"


def test_unfinished_conversion_says_so(coli: Any, source: str, tmp_path: Path) -> None:
    target = tmp_path / "c"
    coli("convert", "-q", source, str(target))
    (target / "colibri.json").rename(target / ".coli_convert.json")
    outcome = coli("info", str(target))
    assert outcome.code == 4
    assert "unfinished conversion" in outcome.err


def test_model_by_variable(coli: Any, source: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLI_MODEL", source)
    assert "olmoe" in coli("info").out


def test_without_an_embedded_model(coli: Any, monkeypatch: Any, tmp_path: Path) -> None:
    import colibri.llm

    monkeypatch.setattr(colibri.llm, "embedded_model", lambda: tmp_path / "none")
    for arguments in (["run", "x"], ["info"], ["chat"]):
        outcome = coli(*arguments)
        assert outcome.code == 2
        assert "--model or COLI_MODEL" in outcome.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_directory(coli: Any, source: str, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(source, model)
    model.chmod(0)
    try:
        assert coli("info", str(model)).code == 4
    finally:
        model.chmod(0o700)


def test_info_names_a_built_in_template(coli: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    shutil.copytree(embedded_model(), path)
    (path / "chat_template.jinja").unlink()
    said = "chat template built in for glm_moe_dsa, reasoning, tool calls (glm)"
    assert said in coli("info", str(path)).out


def test_names_of_directories_do_not_reach_the_terminal_as_they_are(
    coli: Any, tmp_path: Path
) -> None:
    target = tmp_path / "\x1b[31mred"
    converted = coli("convert", str(tiny("olmoe")), str(target))
    assert converted.code == 0
    run = coli("run", "-m", str(target), "--ids", "1,2", "--max-tokens", "2")
    for said in (converted.err, run.err):
        assert "\x1b" not in said
        assert "\ufffd[31mred" in said
