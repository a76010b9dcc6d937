"""The least that works is the least for a server and for `coli tune` too: they do their work in it,
and keep to it."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from colibri.config import EngineConfig
from colibri.lab.tune.trial import ProcessRunner, Work
from test_least import COLI, RATES, clean_environ, coli, model_of

MB = 1_000_000
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 8}}}
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def least_of(model: Path) -> int:
    """In whole MB, as it is said."""
    planned = json.loads(coli("plan", str(model), "--ram", "1MB", "--json", *RATES).stdout)
    return math.ceil(planned["least_bytes"] / MB)


def least_of_server(command: str, model: Path) -> int:
    """As it says itself: that of `coli plan`, unless its libraries take more on this machine."""
    flags = ["--no-open"] if command == "web" else []
    refused = coli(command, "-m", str(model), "--port", "0", "--ram", "1MB", *flags)
    found = re.search(r"the least that works is (\d+) MB", refused.stderr)
    assert found is not None, refused.stderr
    assert int(found[1]) >= least_of(model)
    return int(found[1])


def peak_bytes(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@contextmanager
def server(command: str, model: Path, least: int, state: Path) -> Iterator[tuple[str, int]]:
    """Its URL and process; nothing on stderr but its own lines, and it ends when told to."""
    flags = ["-q", "-m", str(model), "--port", "0", "--usage", "off", "--ram", f"{least}MB"]
    flags += ["--model-id", "m"]
    if command == "web":
        flags.append("--no-open")
    process = subprocess.Popen(
        [*COLI, command, *flags],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environ() | {"XDG_RUNTIME_DIR": str(state)},
    )
    try:
        yield url_of(process), process.pid
    finally:
        process.terminate()
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "warning" not in said, said  # nothing had to be given back


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("serving ") and (found := re.search(r"http://\S+:\d+", line)):
            return found[0]
    raise AssertionError(lines)


def ask(client: httpx2.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def work(client: httpx2.Client, *, chats: bool) -> None:
    """What takes memory: the context to its end, log-probabilities, several at once, a schema."""
    context = client.get("/health").json()["context"]
    ask(client, "/v1/completions", prompt=[5, 6, 7] * ((context - 8) // 3), max_tokens=4)
    several = [[5, 6, token] for token in range(7, 15)]
    ask(client, "/v1/completions", prompt=several, max_tokens=24, logprobs=3, ignore_eos=True)
    if chats:
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
        ask(client, "/v1/chat/completions", messages=QUESTION, response_format=form, max_tokens=40)
        ask(client, "/v1/messages", messages=QUESTION, max_tokens=24, model="m")
    for path in ("/metrics", "/openapi.json"):
        assert client.get(path).status_code == 200


@pytest.mark.alone  # it measures memory
@pytest.mark.parametrize(
    ("command", "kind"), [("serve", "embedded"), ("serve", "bare"), ("web", "embedded")]
)
def test_a_server_works_in_the_least(command: str, kind: str, tmp_path: Path) -> None:
    model = model_of(kind, tmp_path)
    least = least_of_server(command, model)
    with (
        server(command, model, least, tmp_path) as (url, pid),
        httpx2.Client(base_url=url, timeout=60) as client,
    ):
        work(client, chats=kind == "embedded")
        assert (client.get("/").status_code == 200) == (command == "web")
        assert peak_bytes(pid) <= least * MB


@pytest.mark.alone  # it measures memory
def test_tune_works_in_the_least(tmp_path: Path) -> None:
    model = model_of("embedded", tmp_path)
    least = least_of(model)
    config = EngineConfig(model=str(model), ram=f"{least}MB", usage="off")
    found = ProcessRunner(Work(tokens=2, repeats=1)).run(config, 60)  # one way of running
    assert found.peak_bytes <= least * MB
    done = subprocess.run(  # the command plans as its trials do: it has no time, but room
        [*COLI, "tune", str(model), "--ram", f"{least}MB", "--timeout", "1", "--tokens", "2"],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environ() | {"XDG_CONFIG_HOME": str(tmp_path)},
    )
    assert done.returncode in (0, 8), done.stderr
