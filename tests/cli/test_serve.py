"""`coli serve` and `coli stop` as processes of their own."""

from __future__ import annotations

import http.server
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

COLI = [sys.executable, "-c", "from colibri.cli import main; main()"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COLI_")}
    return kept | {"XDG_RUNTIME_DIR": str(tmp_path), "COLI_USAGE": "off"}


class Process:
    def __init__(self, environ: dict[str, str], *flags: str) -> None:
        self._process = subprocess.Popen(
            [*COLI, "serve", "--port", "0", "--ram", "700MB", "--context", "1024", *flags],
            env=environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self._process.stderr is not None
        self.lines: list[str] = []
        for line in self._process.stderr:
            self.lines.append(line)
            if line.startswith("serving "):
                break
        found = re.search(r"serving (\S+) at (http://\S+:(\d+)): (.*)", "".join(self.lines))
        if not found:
            self.kill()
            raise AssertionError(self.lines)
        self.model, self.url, self.port, self.said = found.groups()

    def end(self) -> tuple[int, str]:
        _, rest = self._process.communicate(timeout=60)
        return self._process.returncode, "".join(self.lines) + rest

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def server(environ: dict[str, str]) -> Iterator[Process]:
    process = Process(environ)
    yield process
    process.kill()


def stop(environ: dict[str, str], *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COLI, "stop", *flags], env=environ, capture_output=True, text=True)


def test_one_line_tells_model_address_and_plan(server: Process, environ: dict[str, str]) -> None:
    assert server.model == "colibri-demo"
    for part in ("glm_moe_dsa", "memory", "of 0.70 GB", "context 1,024"):
        assert part in server.said
    answer = httpx2.post(f"{server.url}/v1/completions", json={"prompt": "A cat", "max_tokens": 2})
    assert answer.status_code == 200
    with httpx2.stream(
        "POST",
        f"{server.url}/v1/completions",
        json={"prompt": "A cat", "max_tokens": 900, "ignore_eos": True, "stream": True},
        timeout=60,
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        os.kill(server.pid, signal.SIGTERM)
        assert [line for line in lines if line][-1] == "data: [DONE]"
    code, said = server.end()
    assert code == 0
    assert "POST /v1/completions 200" in said
    assert "A cat" not in said
    assert "Traceback" not in said
    assert stop(environ, "--port", server.port).returncode == 2


def test_stop_ends_the_server_on_its_port_only(server: Process, environ: dict[str, str]) -> None:
    """B101."""
    other = Process(environ)
    try:
        stopped = stop(environ, "--port", server.port)
        assert (stopped.returncode, stopped.stderr) == (0, f"{server.url} has ended\n")
        assert server.end()[0] == 0
        assert httpx2.get(f"{other.url}/health/ready").status_code == 200
    finally:
        other.kill()


def test_stop_needs_no_key_but_the_servers_own_token(environ: dict[str, str]) -> None:
    process = Process(environ | {"COLI_API_KEY": "k"})
    try:
        url = f"{process.url}/v1/colibri/stop"
        assert httpx2.get(f"{process.url}/v1/models").status_code == 401
        for headers in ({}, {"x-colibri-stop": "k"}, {"authorization": "Bearer k"}):
            assert httpx2.post(url, headers=headers).status_code == 403
        assert httpx2.get(f"{process.url}/health/live").status_code == 200
        stopped = stop(environ, "--port", process.port)
        assert (stopped.returncode, stopped.stderr) == (0, f"{process.url} has ended\n")
        assert process.end()[0] == 0
    finally:
        process.kill()


class Stranger(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        pass


def test_stop_ends_nobody_else(environ: dict[str, str], tmp_path: Path) -> None:
    """B101: a note that names another process, and a port where something else listens."""
    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as stranger:
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        port = stranger.server_address[1]
        (tmp_path / "colibri").mkdir()
        note = tmp_path / "colibri" / f"serve-127.0.0.1-{port}.json"
        url = f"http://127.0.0.1:{port}"
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        note.write_text(f'{{"version":1,"url":"{url}","pid":{sleeper.pid},"token":"t"}}')
        refused = stop(environ, "--port", str(port))
        assert refused.returncode == 1
        assert "nothing was ended" in refused.stderr
        assert sleeper.poll() is None
        sleeper.kill()
        sleeper.wait()
        stranger.shutdown()


def test_a_killed_server_leaves_a_note_that_misleads_nobody(
    server: Process, environ: dict[str, str]
) -> None:
    os.kill(server.pid, signal.SIGKILL)
    server.end()
    gone = stop(environ, "--port", server.port)
    assert gone.returncode == 1
    assert "no colibri server answers there" in gone.stderr


def test_the_next_server_says_that_one_was_killed(server: Process, environ: dict[str, str]) -> None:
    """B021: whoever is killed for memory can say nothing, so the next one does, once."""
    os.kill(server.pid, signal.SIGKILL)
    server.end()
    for said in (True, False):
        later = Process(environ, "--port", server.port)
        os.kill(later.pid, signal.SIGTERM)
        code, lines = later.end()
        assert code == 0
        assert (f"(process {server.pid}) was killed" in lines) == said


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--port", "70000"), "--port"),
        (("--host", "a b"), "--host"),
        (("--cors-origin", "localhost"), "--cors-origin"),
        (("--cors-origin", "http://["), "--cors-origin"),
        (("--max-body", "2GiB"), "--max-body"),
        (("--seed", "5"), "--seed"),
        (("--api-key", ""), "--api-key"),
        (("--api-key", "key "), "--api-key"),
        (("--model", "/nonexistent"), "/nonexistent"),
    ],
)
def test_bad_flags(environ: dict[str, str], flags: tuple[str, ...], says: str) -> None:
    done = subprocess.run([*COLI, "serve", *flags], env=environ, capture_output=True, text=True)
    assert done.returncode in (2, 4)
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_for_all_machines_without_a_key_is_warned_of(environ: dict[str, str]) -> None:
    process = Process(environ, "--host", "0.0.0.0")
    assert any("COLI_API_KEY" in line for line in process.lines)
    os.kill(process.pid, signal.SIGINT)
    assert process.end()[0] == 0
