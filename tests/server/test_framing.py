"""Requests that are wrong below JSON: framing, heads, chunks. Each ends in bounded time, with a 400
or a closed connection, without a word of trouble in the log, and disturbs nobody."""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Iterator
from itertools import pairwise

import httpx2
import pytest
from server_kit import Running, raw_request, serving

from colibri import LLM

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
STREAM = b'{"prompt":"x","max_tokens":40,"ignore_eos":true,"stream":true}'
BROKEN: dict[str, tuple[bytes, ...]] = {
    "no size of a chunk": (CHUNKED, b"zz\r\nabc\r\n"),
    "a bad chunk later": (CHUNKED, b"2\r\n{}", b"\r\nzz\r\n"),
    "a chunk without end": (CHUNKED, b"2\r\n{}XX0\r\n\r\n"),
    "a chunk of any size": (CHUNKED, b"FFFFFFFFFFFFFFFFFFFFFF\r\nabc"),
    "a chunk of negative size": (CHUNKED, b"-5\r\nabc\r\n0\r\n\r\n"),
    "a chunk that stays away": (CHUNKED, b"10\r\nabc"),
    "no chunks at all": (CHUNKED,),
    "two lengths": (HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",),
    "a negative length": (HEAD + b"Content-Length: -3\r\n\r\n",),
    "a length of no number": (HEAD + b"Content-Length: 3a\r\n\r\n{} ",),
    "an endless length": (HEAD + b"Content-Length: 99999999999999999999\r\n\r\n", b"abc"),
    "a length and chunks": (
        HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"0",
    ),
    "another coding": (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",),
    "a bad chunk behind a refusal": (CHUNKED.replace(b"localhost", b"evil.example"), b"zz\r\n"),
    "a bad chunk in a stream": (
        b"GET /v1/colibri/events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"zz\r\n",
    ),
    "rubbish behind a request": (raw_request("/v1/completions", STREAM), b"RUBBISH\r\n\x00\xff"),
    "a head too large": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 300_000,),
    "a nul in the path": (b"GET /v1/\x00models HTTP/1.1\r\nHost: localhost\r\n\r\n",),
    "half a character in the path": (b"GET /v1/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",),
    "a nul in a header": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",),
    "no host": (b"GET /v1/models HTTP/1.1\r\n\r\n",),
    "two hosts": (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",),
    "bare newlines": (b"GET /v1/models HTTP/1.1\nHost: localhost\n\n\x00",),
    "a websocket": (
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
    ),
    "nothing": (b"",),
}


@pytest.fixture(scope="module")
def hasty(llm: LLM) -> Iterator[Running]:
    with serving(llm, head_timeout=0.3, body_timeout=0.3) as running:
        yield running


def sent(server: Running, *parts: bytes, seconds: float = 20) -> bytes:
    """What comes back until the connection ends, which it has to."""
    received = b""
    with server.connect() as sock:
        sock.settimeout(seconds)
        try:
            for part in parts:
                sock.sendall(part)
                time.sleep(0.01)
            while data := sock.recv(65536):
                received += data
        except ConnectionError:  # it ended while something was under way
            pass
    return received


def statuses(received: bytes) -> list[int]:
    lines = received.split(b"\r\n")
    return [int(line.split()[1]) for line in lines if line.startswith(b"HTTP/1.1 ")]


def quiet(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether nobody was surprised."""
    return not [r for r in caplog.records if r.levelno >= logging.ERROR or r.exc_info]


@pytest.mark.parametrize("parts", BROKEN.values(), ids=BROKEN)
def test_broken_framing(
    hasty: Running, caplog: pytest.LogCaptureFixture, parts: tuple[bytes, ...]
) -> None:
    received = sent(hasty, *parts)
    assert not [status for status in statuses(received) if status >= 500]
    assert quiet(caplog), caplog.text
    assert httpx2.get(f"{hasty.url}/health/live").status_code == 200
    hasty.await_idle()


def test_what_is_no_http_is_told_so_in_the_usual_envelope(hasty: Running) -> None:
    received = sent(hasty, CHUNKED, b"zz\r\n")
    assert statuses(received) == [400]
    assert b'"type":"invalid_request_error"' in received
    assert b"connection: close" in received.lower()


def test_a_stream_that_is_broken_into_is_given_up(hasty: Running) -> None:
    endless = b'{"prompt":"x","max_tokens":1900,"ignore_eos":true,"stream":true}'
    with hasty.connect() as sock:
        sock.sendall(CHUNKED + b"%x\r\n%s\r\n" % (len(endless), endless))
        sock.sendall(b"0\r\n\r\n")
        while b"data:" not in sock.recv(65536):
            pass
    hasty.await_idle()


def mangled(rng: random.Random) -> tuple[bytes, ...]:
    """A request with some bytes of it changed, doubled or lost, sent in one to three parts."""
    data = bytearray(rng.choice(list(BROKEN.values()))[0] if rng.random() < 0.3 else _whole(rng))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            del data[at : at + rng.randrange(1, 20)]
        elif kind == 1:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 5)))
        elif kind == 2:
            data[at:at] = data[at : at + rng.randrange(1, 60)]
        else:
            data[at : at + 1] = rng.choice([b"\r", b"\n", b"\r\n", b"\x00", b":", b" ", b"\xff"])
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(3)))
    edges = [0, *cuts, len(data)]
    return tuple(bytes(data[a:b]) for a, b in pairwise(edges))


def _whole(rng: random.Random) -> bytes:
    body = b'{"prompt":"x","max_tokens":2,"stream":%s}' % rng.choice([b"true", b"false"])
    if rng.random() < 0.5:
        return raw_request("/v1/completions", body, "Connection: close")
    chunks = [body[i : i + 9] for i in range(0, len(body), 9)]
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return CHUNKED + framed + b"0\r\n\r\n"


def _mangle(server: Running, seed: int, count: int) -> None:
    rng = random.Random(seed)
    for at in range(count):
        parts = mangled(rng)
        with server.connect() as sock:
            sock.settimeout(20)
            try:
                for part in parts:
                    sock.sendall(part)
                sock.shutdown(socket.SHUT_WR)
                received = b""
                while data := sock.recv(65536):
                    received += data
            except OSError:  # it ended while something was under way
                continue
        assert not [s for s in statuses(received) if s >= 500], (seed, at, parts, received)


def test_mangled_requests(hasty: Running, caplog: pytest.LogCaptureFixture) -> None:
    _mangle(hasty, 1, 150)
    hasty.await_idle()
    assert quiet(caplog), caplog.text
    assert httpx2.get(f"{hasty.url}/health/ready").status_code == 200


@pytest.mark.soak
def test_ten_thousand_mangled_requests(hasty: Running, caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(10):
        _mangle(hasty, seed, 1000)
    hasty.await_idle()
    assert quiet(caplog), caplog.text
    assert httpx2.get(f"{hasty.url}/health/ready").status_code == 200
