"""A model of many files under a small limit of open files: it runs, or says why before it loads."""

import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from server_kit import raw_request

import golden
from colibri.server.http.crowd import ACCEPTED_AT_ONCE
from scripts import fp8

RUN = """
import resource, sys
from colibri import LLM, SamplingParams
from colibri.errors import CapacityError
soft, hard = map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    with LLM(sys.argv[1], ram="1GB", context=64, cache_experts=4) as llm:
        params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
        print(llm.generate([5, 6, 7], params).token_ids)
except CapacityError as error:
    print("refused:", error)
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("models") / "many"
    return fp8.write(golden.tiny("qwen3_moe"), target, shards=60)


def run(model: Path, soft: int, hard: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(model), str(soft), str(hard)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_small_soft_limit_is_raised(many: Path) -> None:
    assert run(many, 40, 1024) == run(many, 1024, 1024)


def test_a_hard_limit_that_is_just_enough(many: Path) -> None:
    assert run(many, 40, 60 + 64) == run(many, 1024, 1024)


def test_a_hard_limit_that_is_too_small_is_told_before_anything_is_loaded(many: Path) -> None:
    said = run(many, 40, 60)
    assert said.startswith(f"refused: {many}: ")
    assert "at most 60 may be: raise the hard limit" in said


SERVE = """
import resource, sys, threading
hard = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
from colibri import LLM
from colibri.config import ServerConfig
from colibri.server.service import Service
from colibri.server.serving import Server, bind, run

listening = bind(ServerConfig(port=0))
port = listening.getsockname()[1]

go_on = threading.Event()

def load():
    print("loads", port, flush=True)
    go_on.wait()
    return LLM(sys.argv[1], ram="1GB", context=64, cache_experts=4)

server = Server(Service(ServerConfig(port=0)), load, "many")
server.on_ready = lambda: print(port, server.service.room.most, flush=True)
thread = threading.Thread(target=run, args=(server, listening))
thread.start()
sys.stdin.readline()
go_on.set()
sys.stdin.read()
server._loop.call_soon_threadsafe(server.stop)
thread.join()
"""
ASKED = raw_request("/v1/completions", b'{"prompt": [5, 6], "max_tokens": 4, "ignore_eos": true}')


def status(stack: ExitStack, port: int) -> bytes:
    """Of an answer over a connection that stays open."""
    return answer(stack.enter_context(connected(port)))


@contextmanager
def serving(model: Path, hard: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server that loads its model once it is sent a line, and its port."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(model), str(hard)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        yield child, int(said(child).split()[1])


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def goes_on(child: subprocess.Popen[str]) -> int:
    """The most connections that it takes once the model is there."""
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()
    return int(said(child).split()[1])


def test_a_server_with_few_descriptors_left_takes_fewer_connections(many: Path) -> None:
    """All that it takes are answered, from files that are opened as they are first read."""
    with serving(many, 60 + 64) as (child, port):
        most = goes_on(child)
        with ExitStack() as stack:
            assert [status(stack, port) for _ in range(most)] == [b"200"] * most
            assert status(stack, port) == b"503"
        _, errors = child.communicate("", timeout=60)
    assert 8 <= most < 64
    assert f"at most {most} connections are served at a time" in errors
    assert child.returncode == 0, errors


@pytest.mark.parametrize("hard", [60 + 64 + ACCEPTED_AT_ONCE, 1024])
def test_a_crowd_while_the_model_loads_takes_nothing_from_the_load(many: Path, hard: int) -> None:
    """Each is told at once to come again, or is closed; then the model is there all the same."""
    with serving(many, hard) as (child, port):
        with ExitStack() as stack:
            crowd = [stack.enter_context(connected(port)) for _ in range(300)]
            told = Counter(map(answer, crowd))
            most = goes_on(child)
        assert set(told) == {b"503", b""}
        assert told[b"503"] >= 8
        assert any(answered(port) == b"200" for _ in range(100))
        _, errors = child.communicate("", timeout=60)
    assert most >= 8
    assert "out of system resource" not in errors
    assert child.returncode == 0, errors


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def answer(sock: socket.socket) -> bytes:
    """The status; empty where the connection was closed."""
    try:
        sock.sendall(ASKED)
        return sock.recv(65536)[9:12]
    except (BrokenPipeError, ConnectionResetError):
        return b""


def answered(port: int) -> bytes:
    """By a server that may still be busy with those that have left."""
    with connected(port) as sock:
        return answer(sock)
