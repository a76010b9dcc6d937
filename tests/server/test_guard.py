"""Who may call: keys, hosts, pages; and what a refusal leaves of the connection."""

from __future__ import annotations

import http.client
import logging
import socket
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import anthropic
import httpx2
import openai
import pytest
from server_kit import Running, raw_request, raw_response, serving

from colibri import LLM
from colibri.server import guard

KEY = "s3cret-key"
BODY: Any = {"prompt": "A cat", "max_tokens": 2}
ORIGIN = "http://localhost:3000"


@pytest.fixture(scope="module")
def locked(llm: LLM) -> Iterator[Running]:
    with serving(
        llm, api_key=KEY, cors_origin=(ORIGIN,), allowed_host=("box.lan",), max_body=20_000
    ) as running:
        yield running


@pytest.fixture(scope="module")
def anyone(locked: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=locked.url, timeout=20) as client:
        yield client


@pytest.fixture(scope="module")
def known(locked: Running) -> Iterator[httpx2.Client]:
    headers = {"authorization": f"Bearer {KEY}"}
    with httpx2.Client(base_url=locked.url, timeout=20, headers=headers) as client:
        yield client


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models",
        "/health",
        "/health/ready",
        "/metrics",
        "/openapi.json",
        "/v1/colibri/plan",
        "/v1/colibri/experts",
        "/v1/colibri/events",
        "/nothing",
    ],
)
def test_all_but_liveness_ask_for_the_key(anyone: httpx2.Client, path: str) -> None:
    response = anyone.get(path)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert response.headers["www-authenticate"] == "Bearer"
    assert anyone.get("/health/live").json() == {"status": "live"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {KEY}"},
        {"authorization": KEY},
        {"authorization": f"Bearer {KEY} x"},
        {"authorization": f"Bearer {KEY[:-1]}"},
        {"x-api-key": "wrong"},
        {"x-api-key": b"\xff\xfe"},
    ],
    ids=str,
)
def test_wrong_keys(anyone: httpx2.Client, headers: dict[str, Any]) -> None:
    assert anyone.post("/v1/completions", json=BODY, headers=headers).status_code == 401


def test_right_keys(anyone: httpx2.Client, locked: Running) -> None:
    for headers in ({"authorization": f"bearer {KEY}"}, {"x-api-key": KEY}):
        assert anyone.post("/v1/completions", json=BODY, headers=headers).status_code == 200
    with openai.OpenAI(base_url=f"{locked.url}/v1", api_key=KEY) as client:
        assert [model.id for model in client.models.list()] == ["demo"]
    with (
        openai.OpenAI(base_url=f"{locked.url}/v1", api_key="x", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()
    with (
        anthropic.Anthropic(base_url=locked.url, api_key="x", max_retries=0) as other,
        pytest.raises(anthropic.AuthenticationError),
    ):
        other.messages.create(model="demo", max_tokens=1, messages=[])


def test_keys_are_compared_in_constant_time(anyone: httpx2.Client) -> None:
    """B088."""
    with mock.patch.object(guard.hmac, "compare_digest", wraps=guard.hmac.compare_digest) as spy:
        anyone.get("/v1/models", headers={"x-api-key": KEY})
    spy.assert_called_once_with(KEY.encode(), KEY.encode())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1:9", 200),
        ("192.168.1.7:8000", 200),
        ("[::1]:8000", 200),
        ("box.lan", 200),
        ("box.lan:8000", 200),
        ("evil.example", 403),
        ("evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_names_that_the_server_answers_to(locked: Running, host: str, status: int) -> None:
    """B089: the refusal says which flag; B086's relative, DNS rebinding."""
    connection = http.client.HTTPConnection(*locked.address, timeout=20)
    connection.putrequest("GET", "/health/live", skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    response = connection.getresponse()
    said = response.read().decode()
    connection.close()
    assert response.status == status
    if status == 403:
        assert "--allowed-host" in said


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health/live", 200),
        ("/health/ready", 200),
        ("/health", 200),
        ("/v1/models", 403),
        ("/v1/colibri/stop", 403),
        ("/", 403),
    ],
)
def test_a_probe_of_http_1_0_needs_no_host(locked: Running, path: str, status: int) -> None:
    with socket.create_connection(locked.address, timeout=20) as sock:
        sock.sendall(f"GET {path} HTTP/1.0\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode())
        assert raw_response(sock)[0] == status


def test_a_wildcard_of_hosts_is_possible(llm: LLM) -> None:
    """B089."""
    with serving(llm, allowed_host=("*",)) as running:
        headers = {"host": "anything.example"}
        assert httpx2.get(f"{running.url}/health/live", headers=headers).status_code == 200


def test_pages_that_may_call(known: httpx2.Client, locked: Running) -> None:
    response = known.get("/v1/models", headers={"origin": ORIGIN})
    assert response.headers["access-control-allow-origin"] == ORIGIN
    assert "origin" in response.headers["vary"].lower()
    asked = {
        "origin": ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }
    preflight = httpx2.options(f"{locked.url}/v1/chat/completions", headers=asked)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == ORIGIN
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    refusal = httpx2.get(f"{locked.url}/v1/models", headers={"origin": ORIGIN})
    assert refusal.status_code == 401
    assert refusal.headers["access-control-allow-origin"] == ORIGIN  # so that the page can say so


@pytest.mark.parametrize(
    "origin", ["http://localhost:3001", "https://localhost:3000", f"{ORIGIN}.evil.example", "null"]
)
def test_pages_that_may_not_call(known: httpx2.Client, origin: str) -> None:
    """Also not as what browsers send without asking first."""
    response = known.post("/v1/completions", json=BODY, headers={"origin": origin})
    assert response.status_code == 403
    assert "--cors-origin" in response.json()["error"]["message"]
    assert "access-control-allow-origin" not in response.headers


ODD = ("", " ", "[", "http://[", "http://[::1", "//", "null", "*", "http://localhost:x", "\xe9\xff")
ODD += ("http://localhost@evil.example", "Bearer", "Bearer \xff", "Basic Og==", "%00", ",;=")
ODD += ("a" * 9000,)
NAMES = ("origin", "host", "authorization", "x-api-key", "content-type", "content-encoding")
NAMES += ("accept", "x-colibri-stop", "access-control-request-method")
NAMES += ("access-control-request-headers",)


@pytest.mark.parametrize("name", NAMES)
def test_headers_of_any_kind(locked: Running, llm: LLM, name: str) -> None:
    """None of them is our fault, opens anything, or writes itself into an answer's headers."""
    with serving(llm, allowed_host=("*",)) as lenient:
        for value in ODD:
            sent = {"host": "localhost", "content-type": "application/json", "origin": ORIGIN}
            if name not in ("origin", "authorization", "x-api-key"):
                sent["x-api-key"] = KEY
            lines = [f"{key}: {said}" for key, said in (sent | {name: value}).items()]
            for method, path in (("POST", "/v1/colibri/stop"), ("OPTIONS", "/v1/completions")):
                head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "Content-Length: 0"])
                for running in (locked, lenient):
                    with running.connect() as sock:
                        sock.sendall(head.encode("latin-1") + b"\r\n\r\n")
                        status = int(sock.recv(65536).split(b" ")[1])
                    assert 204 <= status < 500, (name, value, path)
        for running in (locked, lenient):
            assert httpx2.get(f"{running.url}/health/live").status_code == 200


def test_own_pages_may_call(known: httpx2.Client, locked: Running) -> None:
    assert known.get("/v1/models", headers={"origin": locked.url}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ((f"Authorization: Bearer {KEY}x",), b'{"prompt":"GET / HTTP/1.1"}', 401),
        (("Origin: http://evil.example",), b"x" * 15_000, 403),
        ((f"Authorization: Bearer {KEY}",), b"{" * 500, 400),
        ((f"Authorization: Bearer {KEY}", "Content-Encoding: gzip"), b"x" * 500, 415),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_connection_goes_on_after_a_refusal(
    locked: Running, headers: tuple[str, ...], body: bytes, status: int
) -> None:
    """B074: the next request is not read out of the refused body."""
    with locked.connect() as sock:
        sock.sendall(raw_request("/v1/completions", body, *headers))
        got, _, rest = raw_response(sock)
        assert got == status
        sock.sendall(raw_request("/health/live", b"", method="GET"))
        assert raw_response(sock, rest)[:2] == (200, b'{"status":"live"}')


@pytest.mark.parametrize("size", [20_001, 3_000_000])
def test_a_body_too_large_is_taken_in_and_refused(locked: Running, size: int) -> None:
    """The client gets to read why, and the connection ends."""
    with locked.connect() as sock:
        sock.sendall(raw_request("/v1/completions", b"x" * size, f"X-Api-Key: {KEY}"))
        status, said, _ = raw_response(sock)
        assert status == 413
        assert b"--max-body" in said
        assert sock.recv(10) == b""


@pytest.mark.parametrize(("size", "status"), [("20001", 413), ("9" * 18, 413), ("15", 100)])
def test_a_client_that_asks_before_it_sends(locked: Running, size: str, status: int) -> None:
    head = raw_request("/v1/completions", b"", f"X-Api-Key: {KEY}", "Expect: 100-continue")
    with locked.connect() as sock:
        sock.sendall(head.replace(b"Content-Length: 0", f"Content-Length: {size}".encode()))
        assert sock.recv(12) == f"HTTP/1.1 {status}".encode()


def test_a_body_in_pieces_is_bounded_as_well(known: httpx2.Client) -> None:
    pieces = (b"x" * 1000 for _ in range(100))
    headers = {"content-type": "application/json"}
    assert known.post("/v1/completions", content=pieces, headers=headers).status_code == 413


def dribble(sock: socket.socket, data: bytes) -> None:
    for byte in data:
        sock.sendall(bytes([byte]))
        time.sleep(0.02)


def test_slow_heads_and_bodies_have_an_end(llm: LLM) -> None:
    """Slow-loris: a byte now and then prolongs nothing."""
    with serving(llm, head_timeout=0.3, body_timeout=0.3) as running:
        begun = time.monotonic()
        with running.connect() as head, running.connect() as body, running.connect() as silent:
            body.sendall(raw_request("/v1/completions", b'{"prompt":"x"}')[:-3])
            request = raw_request("/v1/models", b"", method="GET")
            with pytest.raises(ConnectionError):
                dribble(head, request)
            status, _, _ = raw_response(body)
            assert status == 408
            with pytest.raises(ConnectionError):
                raw_response(silent)
        assert time.monotonic() - begun < 15


def test_a_refused_body_that_dribbles_has_an_end(llm: LLM) -> None:
    with serving(llm, head_timeout=0.3, api_key=KEY) as running, running.connect() as sock:
        sock.sendall(raw_request("/v1/completions", b"x" * 100)[:-50])
        assert raw_response(sock)[0] == 401
        with pytest.raises(ConnectionError):
            dribble(sock, b"x" * 49)


def test_what_is_no_http_gets_a_400(server: Running) -> None:
    for sent in (b"\x16\x03\x01\x02\x00\x01\x00", b"HELLO\r\n\r\n", b"GET / HTTP/1.1\n\n"):
        with server.connect() as sock:
            sock.sendall(sent)
            assert sock.recv(100).startswith(b"HTTP/1.1 400")


def test_logs_have_no_prompt_unless_asked_for(llm: LLM, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="colibri.server")
    for wanted in ("off", "on"):
        caplog.clear()
        with serving(llm, log_prompts=wanted) as running:
            httpx2.post(f"{running.url}/v1/completions", json={"prompt": "xyzzy", "max_tokens": 2})
            httpx2.get(f"{running.url}/v1/models?secret=xyzzy")
        assert ("xyzzy" in caplog.text) == (wanted == "on")
        assert "POST /v1/completions 200" in caplog.text
        assert "answer 2 (length)" in caplog.text


def test_requests_have_an_id(http_client: httpx2.Client) -> None:
    ids = {http_client.get("/v1/models").headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


@pytest.fixture
def http_client(server: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url) as client:
        yield client
