"""Clients that leave, at every stage: their answers are not computed any further, others are."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

import httpx2
import pytest
from server_kit import Running, raw_request, serving

from colibri import LLM

ENDLESS = b'{"prompt":"The fox","max_tokens":1900,"ignore_eos":true,"stream":%s}'


def reset(sock: socket.socket) -> None:
    """Closes with a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def decoded(server: Running) -> int:
    llm = server.service.any_llm
    assert llm is not None
    return llm.stats().decode_tokens


def await_running(server: Running, tokens: int) -> None:
    """Until an answer has so many tokens."""
    llm = server.service.any_llm
    assert llm is not None
    until = time.monotonic() + 20
    while not any(request.new_tokens >= tokens for request in llm.status().running):
        assert time.monotonic() < until
        time.sleep(0.002)


@pytest.mark.parametrize("stream", [b"true", b"false"])
@pytest.mark.parametrize("leave", [reset, socket.socket.close])
def test_leaving_in_the_middle_ends_the_answer(server: Running, stream: bytes, leave: Any) -> None:
    """B070, B071: streamed or not, and long before its last token."""
    sock = server.connect()
    sock.sendall(raw_request("/v1/completions", ENDLESS % stream))
    await_running(server, 3)
    before = decoded(server)
    leave(sock)
    server.await_idle()
    assert decoded(server) - before < 1000


def test_leaving_during_prefill(llm: LLM) -> None:
    """B070: before the first token."""
    with serving(llm) as server:
        prompt = " ".join(f"word{i}" for i in range(450))
        sock = server.connect()
        body = b'{"prompt":"%s","max_tokens":500,"ignore_eos":true}' % prompt.encode()
        sock.sendall(raw_request("/v1/completions", body))
        until = time.monotonic() + 20
        while not llm.status().running:
            assert time.monotonic() < until
            time.sleep(0.001)
        before = decoded(server)
        reset(sock)
        server.await_idle()
        assert decoded(server) - before < 400


def test_leaving_while_arguments_of_a_tool_are_written(thinker: LLM) -> None:
    """A call is sent once it is whole: nothing is written meanwhile that could fail."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "pattern": "^[a-z]{1900}$"}},
        "required": ["city"],
    }
    tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
    with serving(thinker) as server:
        for stream in (True, False):
            asked = {
                "messages": [{"role": "user", "content": "Oslo?"}],
                "tools": [tool],
                "tool_choice": "required",
                "reasoning_effort": "none",
                "max_tokens": 1900,
                "stream": stream,
            }
            sock = server.connect()
            sock.sendall(raw_request("/v1/chat/completions", json.dumps(asked).encode()))
            await_running(server, 12)
            before = decoded(server)
            reset(sock)
            server.await_idle()
            assert decoded(server) - before < 1000


def test_who_left_while_waiting_is_never_started(llm: LLM) -> None:
    """B072."""
    with serving(llm) as server:
        holder = server.connect()
        holder.sendall(raw_request("/v1/completions", ENDLESS % b"true"))
        await_running(server, 2)
        waiting = [server.connect() for _ in range(3)]
        for sock in waiting:
            sock.sendall(raw_request("/v1/completions", ENDLESS % b"false"))
        until = time.monotonic() + 20
        while llm.status().waiting < 3:
            assert time.monotonic() < until
            time.sleep(0.001)
        started = llm.status().stats.started
        for sock in waiting:
            reset(sock)
        while llm.status().waiting:
            assert time.monotonic() < until
            time.sleep(0.001)
        reset(holder)
        server.await_idle()
        assert llm.status().stats.started == started


def test_leaving_before_the_request_is_whole(server: Running) -> None:
    for part in (b"", b"POST /v1/co", raw_request("/v1/completions", ENDLESS % b"true")[:-5]):
        sock = server.connect()
        sock.sendall(part)
        reset(sock)
    with httpx2.Client(base_url=server.url) as http:
        assert http.get("/health/ready").status_code == 200
    server.await_idle()


def test_fifty_resets_in_the_middle_of_streams(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """B071: the server lives, without a traceback, and every slot is free."""
    for at in range(50):
        sock = server.connect()
        sock.sendall(raw_request("/v1/completions", ENDLESS % b"true"))
        received = b""
        while received.count(b"data:") < at % 4:
            received += sock.recv(4096)
        reset(sock)
    server.await_idle()
    with httpx2.Client(base_url=server.url, timeout=20) as http:
        answer = http.post("/v1/completions", json={"prompt": "A cat", "max_tokens": 2})
        assert answer.status_code == 200
    assert not [record for record in caplog.records if record.exc_info]


def test_others_go_on_when_one_leaves(server: Running) -> None:
    body = {"prompt": "A cat", "seed": 2, "max_tokens": 30}
    with httpx2.Client(base_url=server.url, timeout=20) as http:
        alone = http.post("/v1/completions", json=body).json()["choices"]
        sock = server.connect()
        sock.sendall(raw_request("/v1/completions", ENDLESS.replace(b"1900", b"200") % b"true"))
        await_running(server, 1)
        reset(sock)
        assert http.post("/v1/completions", json=body).json()["choices"] == alone
    server.await_idle()


def read_to_the_end(sock: socket.socket) -> bytes:
    """What still comes after this side is closed."""
    sock.shutdown(socket.SHUT_WR)
    received = b""
    while got := sock.recv(65536):
        received += got
    return received


BRIEF = ENDLESS.replace(b"1900", b"300").replace(b"{", b'{"seed":7,', 1)


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_who_only_closes_its_own_side_gets_its_answer(server: Running, seconds: float) -> None:
    """At once or while the answer is computed; the response is then the connection's last."""
    with httpx2.Client(base_url=server.url, timeout=20) as http:
        expected = http.post("/v1/completions", json=json.loads(BRIEF % b"false")).json()
    with server.connect() as sock:
        sock.sendall(raw_request("/v1/completions", BRIEF % b"false"))
        time.sleep(seconds)
        head, _, body = read_to_the_end(sock).rpartition(b"\r\n\r\n")
    assert b"HTTP/1.1 200 OK\r\n" in head
    assert json.loads(body)["choices"] == expected["choices"]
    server.await_idle()


def test_who_only_closes_its_own_side_gets_its_stream(server: Running) -> None:
    with server.connect() as sock:
        sock.sendall(raw_request("/v1/completions", BRIEF % b"true"))
        received = read_to_the_end(sock)
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 1
    assert b'"finish_reason":"length"' in received
    assert received.rstrip(b"\r\n0").endswith(b"data: [DONE]")
    server.await_idle()


def test_requests_in_a_row_are_answered_after_the_last_word(server: Running) -> None:
    with server.connect() as sock:
        one = raw_request("/v1/completions", BRIEF % b"false")
        sock.sendall(one + one + one[:40])  # the third is never whole
        received = read_to_the_end(sock)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.count(b'"finish_reason":"length"') == 2
    server.await_idle()


@pytest.mark.parametrize("part", [b"", b"POST /v1/co", raw_request("/v1/completions", BRIEF)[:-5]])
def test_half_a_request_and_no_more_ends_at_once(server: Running, part: bytes) -> None:
    with server.connect() as sock:
        sock.settimeout(5)
        sock.sendall(part)
        sock.shutdown(socket.SHUT_WR)
        assert b"200 OK" not in sock.recv(65536)
    server.await_idle()


def test_who_closes_its_side_and_then_leaves_is_gone(server: Running) -> None:
    sock = server.connect()
    sock.sendall(raw_request("/v1/completions", ENDLESS % b"false"))
    await_running(server, 3)
    before = decoded(server)
    sock.shutdown(socket.SHUT_WR)
    await_running(server, 50)
    sock.close()
    server.await_idle()
    assert decoded(server) - before < 1800


def test_an_older_client_that_closes_its_side_has_left(server: Running) -> None:
    """HTTP/1.0 has no word for "wait" that would show who is still there."""
    with server.connect() as sock:
        asked = raw_request("/v1/completions", ENDLESS % b"false")
        sock.sendall(asked.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        await_running(server, 3)
        before = decoded(server)
        sock.shutdown(socket.SHUT_WR)
        server.await_idle()
        assert decoded(server) - before < 1000
        assert sock.recv(100) == b""
