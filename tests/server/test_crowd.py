"""More connections than the server takes."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator

import anthropic
import openai
import pytest
from server_kit import Running, raw_request, raw_response, serving

from colibri import LLM
from colibri.server.http.crowd import SPARE_CONNECTIONS, Room

MOST = 6
ASKED = b'{"prompt": "A cat", "max_tokens": 1}'


@pytest.fixture
def crowded(llm: LLM) -> Iterator[Running]:
    """As many connections as it takes, each used once and kept."""
    with serving(llm, connections=MOST) as running, contextlib.ExitStack() as stack:
        for _ in range(MOST):
            sock = stack.enter_context(running.connect())
            sock.sendall(raw_request("/v1/models", b"", method="GET"))
            assert raw_response(sock)[0] == 200
        yield running


def test_one_more_is_told_in_the_apis_words_when_to_come_again(crowded: Running) -> None:
    with (
        openai.OpenAI(base_url=f"{crowded.url}/v1", api_key="none", max_retries=0) as one,
        pytest.raises(openai.InternalServerError) as first,
    ):
        one.completions.create(model="demo", prompt="x")
    assert (first.value.status_code, first.value.code) == (503, "too_many_connections")
    assert first.value.type == "overloaded_error"
    assert first.value.response.headers["retry-after"] == "1"
    assert first.value.response.headers["x-request-id"].startswith("req_")
    with (
        anthropic.Anthropic(base_url=crowded.url, api_key="none", max_retries=0) as two,
        pytest.raises(anthropic.APIStatusError) as second,
    ):
        two.messages.create(model="demo", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    assert second.value.status_code == 503
    assert second.value.body["type"] == "error"  # type: ignore[index,call-overload]
    assert second.value.body["error"]["type"] == "overloaded_error"  # type: ignore[index,call-overload]


def test_it_is_still_alive_and_ends_if_told_so(crowded: Running) -> None:
    with crowded.connect() as sock:
        for path, status in (("/health/live", 200), ("/health/live", 200), ("/health", 503)):
            sock.sendall(raw_request(path, b"", method="GET"))
            found, body, _ = raw_response(sock)
            assert found == status
            assert isinstance(json.loads(body), dict)
        assert sock.recv(1) == b""  # who was refused does not stay
    with crowded.connect() as sock:
        sock.sendall(raw_request("/v1/colibri/stop", b""))
        assert raw_response(sock)[0] in (401, 403)  # asks for its own secret


def test_a_large_body_does_not_reset_what_is_answered(crowded: Running) -> None:
    body = b'{"prompt": "' + b"x" * 3_000_000 + b'"}'
    with crowded.connect() as sock:
        sock.sendall(raw_request("/v1/completions", body))
        status, said, _ = raw_response(sock)
        assert status == 503
        assert json.loads(said)["error"]["code"] == "too_many_connections"
        assert sock.recv(1) == b""


def test_descriptors_do_not_run_out(crowded: Running) -> None:
    """So many at once that nothing can be said to each: those beyond the spare ones are dropped."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(crowded.connect()) for _ in range(3 * SPARE_CONNECTIONS)]
        for sock in socks[SPARE_CONNECTIONS:]:
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1) == b""
        assert len(crowded.server.server_state.connections) <= MOST + SPARE_CONNECTIONS
        socks[0].sendall(raw_request("/health/live", b"", method="GET"))
        assert raw_response(socks[0])[0] == 200


def test_a_place_that_is_left_is_the_next_ones(
    crowded: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="colibri.server"), crowded.connect() as sock:
        sock.sendall(raw_request("/v1/completions", ASKED))
        assert raw_response(sock)[0] == 503
        for _ in range(100):  # the line is written once the answer has gone
            if logged := "connections are open" in caplog.text:
                break
            time.sleep(0.05)
    assert logged
    spare = next(iter(crowded.server.server_state.connections))
    assert crowded.server._loop is not None
    crowded.server._loop.call_soon_threadsafe(spare.transport.abort)  # type: ignore[union-attr]
    for _ in range(50):
        with crowded.connect() as sock:
            sock.sendall(raw_request("/v1/completions", ASKED))
            if raw_response(sock)[0] == 200:
                return
    raise AssertionError("still crowded")


def test_a_preflight_is_answered_so_that_a_page_can_read_the_refusal(llm: LLM) -> None:
    origin = "Origin: http://localhost:3000"
    with (
        serving(llm, connections=0, cors_origin=("http://localhost:3000",)) as running,
        running.connect() as sock,
    ):
        preflight = raw_request(
            "/v1/models", b"", origin, "Access-Control-Request-Method: GET", method="OPTIONS"
        )
        sock.sendall(preflight)
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(4096)
        assert head.startswith(b"HTTP/1.1 204")
        sock.sendall(raw_request("/v1/models", b"", origin, method="GET"))
        head = sock.recv(4096).lower()
        assert b" 503 " in head.split(b"\r\n")[0]
        assert b"access-control-allow-origin: http://localhost:3000" in head


@pytest.mark.parametrize(
    ("descriptors", "most", "spare"),
    [(None, 512, 64), (5000, 512, 64), (576, 512, 64), (575, 511, 64), (100, 75, 25), (0, 1, 1)],
)
def test_room_for_connections(descriptors: int | None, most: int, spare: int) -> None:
    room = Room(512)
    assert room.fit(descriptors) is ((most, spare) != (512, 64))
    assert (room.most, room.spare) == (most, spare)
    assert room.fit(1000) is False  # while the model loaded there may have been less
    assert (room.most, room.spare) == (512, 64)
