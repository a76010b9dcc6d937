"""A model of many files under a small limit of open files: it runs, or says why before it loads."""

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from server_kit import raw_request

import golden
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
load = lambda: LLM(sys.argv[1], ram="1GB", context=64, cache_experts=4)
server = Server(Service(ServerConfig(port=0)), load, "many")
port = listening.getsockname()[1]
server.on_ready = lambda: print(port, server.service.room.most, flush=True)
thread = threading.Thread(target=run, args=(server, listening))
thread.start()
sys.stdin.read()
server._loop.call_soon_threadsafe(server.stop)
thread.join()
"""
ASKED = raw_request("/v1/completions", b'{"prompt": [5, 6], "max_tokens": 4, "ignore_eos": true}')


def status(stack: ExitStack, port: int) -> bytes:
    """Of an answer over a connection that stays open."""
    sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
    sock.sendall(ASKED)
    return sock.recv(65536)[9:12]


def test_a_server_with_few_descriptors_left_takes_fewer_connections(many: Path) -> None:
    """All that it takes are answered, from files that are opened as they are first read."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(many), str(60 + 64)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        port, most = map(int, child.stdout.readline().split())
        with ExitStack() as stack:
            assert [status(stack, port) for _ in range(most)] == [b"200"] * most
            assert status(stack, port) == b"503"
        _, said = child.communicate("", timeout=60)
    assert 8 <= most < 64
    assert f"at most {most} connections are served at a time" in said
    assert child.returncode == 0, said
