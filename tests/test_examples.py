"""What the documents show is run: Python blocks on the embedded model, commands on a tiny one."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from safetensors.numpy import save_file
from server_kit import serving

from colibri import LLM
from colibri.llm import embedded_model
from colibri.models.registry import family_for
from scripts import reference, speeds

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Of other pages the blocks need a server, or a model that calls tools.
RUN = ["README.md", "docs/python.md", "docs/serving.md", "docs/structure.md"]


def python_of(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_documents_is_python(page: Path) -> None:
    for block in python_of(page):
        compile(block, str(page), "exec")


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    """What a page's blocks may use that they do not define."""
    with LLM() as llm:
        yield {"llm": llm}


@pytest.mark.parametrize("page", RUN)
def test_python_in_documents_runs(
    page: str, names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for block in python_of(ROOT / page):
        exec(compile(block, page, "exec"), names)
    out = capsys.readouterr().out
    if page in ("README.md", "docs/python.md"):
        assert "Paris" in out


def test_every_public_method_is_in_the_reference() -> None:
    page = (ROOT / "docs/python.md").read_text("utf-8")
    public = {name for name in vars(LLM) if not name.startswith("_")}
    assert set(reference.INNER) < public
    for name in public:
        assert (f"#### `{name}`" in page) == (name not in reference.INNER)


def test_what_has_no_docstring_is_not_shown_without_a_word() -> None:
    with pytest.raises(ValueError, match=r"ChatRequest\.tools has no docstring"):
        list(reference._class_text("colibri.text.chat", "ChatRequest"))


def commands_of(page: Path) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines()]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the names in capitals stand for: a small checkpoint that chats, and empty folders."""
    folder = tmp_path_factory.mktemp("readme")
    places = {name: str(folder / name) for name in ("DIR", "CONVERTED", "MIRROR", "HEADERS")}
    _random_checkpoint(folder / "DIR")
    speeds.write_headers("qwen3-30b-a3b", folder / "HEADERS" / "qwen3-30b-a3b")
    return places


def _random_checkpoint(folder: Path) -> None:
    """The embedded model's shape and tokenizer, with random weights, as one would be downloaded."""
    folder.mkdir()
    for file in embedded_model().iterdir():
        if file.suffix in (".json", ".jinja") and "colibri" not in file.name:
            shutil.copy(file, folder)
    config = json.loads((folder / "config.json").read_text())
    weights = family_for(config).weights_of(config)
    shapes = dict(weights.required)
    for name in speeds.expert_names(weights):
        match = weights.classify(name)
        assert match is not None
        assert match.layer is not None
        e = weights.experts[match.layer]
        shapes[name] = (e.hidden, e.inner) if "down" in name else (e.inner, e.hidden)
    rng = np.random.default_rng(0)
    tensors = {n: (rng.standard_normal(s) * 0.05).astype(np.float16) for n, s in shapes.items()}
    save_file(tensors, folder / "model.safetensors")


def _run(line: str, places: dict[str, str], folder: Path) -> tuple[int, str]:
    words = [
        word if word == "coli" else "/".join(places.get(part, part) for part in word.split("/"))
        for word in shlex.split(line)
    ]
    served = words[1] in ("serve", "web")
    flags = ["--port", "0"] if served else []
    flags += ["--no-open"] if words[1] == "web" else []
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("coli")), *words[1:], *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(folder)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    said = ""
    if served:
        while not (urls := re.findall(r"http://[\w.:]+", said)):
            said += process.stdout.readline()
        _await_loaded(urls[0])
        process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate("What is 2 + 3?\n" if words[1] == "chat" else "", timeout=120)
    return process.returncode, said + rest


def _await_loaded(url: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if httpx2.get(f"{url}/health/ready").status_code == 200:
            return
        time.sleep(0.05)
    raise AssertionError(f"{url} is not ready")


def test_commands_of_the_readme_run(places: dict[str, str], tmp_path: Path) -> None:
    lines = [line for line in commands_of(ROOT / "README.md") if line.startswith("coli ")]
    assert len(lines) > 12
    for line in lines:
        code, said = _run(line, places, tmp_path)
        assert code == 0, f"{line}\n{said}"


@pytest.mark.parametrize("page", ["README.md", "docs/server.md"])
def test_requests_of_documents_are_answered_well(page: str, names: dict[str, Any]) -> None:
    lines = [line for line in commands_of(ROOT / page) if line.startswith("curl ")]
    assert lines
    with serving(names["llm"]) as running:
        for line in lines:
            words = shlex.split(line)
            path = words[1].removeprefix("http://127.0.0.1:8000")
            reply = httpx2.post(running.url + path, json=json.loads(words[words.index("-d") + 1]))
            assert reply.status_code == 200, reply.text
            assert "Paris" in reply.json().get("answer", reply.text)


@pytest.mark.parametrize("shape", ["olmoe-1b-7b", "qwen3.6-35b-a3b"])
def test_speeds_of_the_readme_are_what_the_plan_says(shape: str, tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    name = speeds.MODELS[shape]
    (shown,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", page, re.MULTILINE)
    folder = speeds.write_headers(shape, tmp_path / "model")
    plan = speeds.plan(folder, speeds.RAM[0])
    assert float(shown.split(" | ")[2]) == pytest.approx(
        plan["forecast"]["tokens_per_second"], rel=0.15
    )
