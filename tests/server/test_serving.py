"""The life of a server: a port, a model that loads, a drain."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from server_kit import events, raw_request, serving, slow_down

from colibri import LLM
from colibri.config import ServerConfig
from colibri.errors import ConfigError, ContainerError
from colibri.server.live import AT_ONCE
from colibri.server.service import Service
from colibri.server.serving import Server, bind, run, url_of

ENDLESS = {"prompt": "The fox", "max_tokens": 1900, "ignore_eos": True, "stream": True}


def test_a_port_in_use_is_named() -> None:
    with bind(ServerConfig(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127.0.0.1 port {port} is in use.*--port"):
            bind(ServerConfig(port=port))


@pytest.mark.parametrize("host", ["no-such-host.invalid", "203.0.113.7"])
def test_an_address_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(ConfigError, match=host):
        bind(ServerConfig(host=host, port=0))


def test_while_the_model_loads(llm: LLM) -> None:
    """The port answers: alive, not ready, come again."""
    go_on = threading.Event()

    def load() -> LLM:
        assert go_on.wait(20)
        return llm

    config = ServerConfig(port=0)
    listening = bind(config)
    server = Server(Service(config), load, "demo")
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    with httpx2.Client(base_url=url_of(listening)) as client:
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 503
        assert client.get("/health").json()["status"] == "loading"
        for refusal in _asked(client):
            assert refusal.status_code == 503, refusal.text
            assert int(refusal.headers["retry-after"]) > 0
            assert "loaded" in refusal.json()["error"]["message"]
        go_on.set()
        _await(lambda: client.get("/health/ready").status_code == 200)
        assert client.post("/v1/completions", json={"prompt": "x"}).status_code == 200
    server._loop.call_soon_threadsafe(server.stop)  # type: ignore[union-attr]
    thread.join(20)
    assert not thread.is_alive()
    listening.close()


def _asked(client: httpx2.Client) -> Iterator[httpx2.Response]:
    """Whatever needs the model, by its name and without."""
    messages = [{"role": "user", "content": "x"}]
    chat: dict[str, Any] = {"messages": messages, "max_tokens": 4}
    for more in ({}, {"model": "demo"}):
        yield client.post("/v1/completions", json={"prompt": "x"} | more)
        yield client.post("/v1/chat/completions", json=chat | more)
    yield client.post("/v1/messages", json=chat | {"model": "demo"})
    yield client.post("/v1/messages/count_tokens", json={"messages": messages, "model": "demo"})
    yield client.get("/v1/models")
    yield client.get("/v1/models/demo")


def test_a_model_that_cannot_be_loaded_ends_the_server() -> None:
    def load() -> LLM:
        raise ContainerError("no config.json")

    config = ServerConfig(port=0)
    server = Server(Service(config), load, "demo")
    with pytest.raises(ContainerError, match=r"no config\.json"):
        run(server, bind(config))


def test_drain_lets_answers_end_and_takes_no_new_ones(llm: LLM) -> None:
    with serving(llm, drain_timeout=20) as running, httpx2.Client(base_url=running.url) as client:
        with client.stream("POST", "/v1/completions", json=ENDLESS | {"max_tokens": 300}) as old:
            lines = old.iter_lines()
            next(lines)
            loop = running.server._loop
            assert loop is not None
            loop.call_soon_threadsafe(running.server.stop)
            _await(lambda: running.service.state == "draining")
            refusal = httpx2.post(f"{running.url}/v1/completions", json={"prompt": "x"})
            assert refusal.status_code == 503
            assert "stopping" in refusal.json()["error"]["message"]
            assert httpx2.get(f"{running.url}/health/ready").status_code == 503
            assert httpx2.get(f"{running.url}/health/live").status_code == 200
            assert [line for line in lines if line][-1] == "data: [DONE]"
        _await(lambda: not _answers(running.url))


SEVERAL = [{"question": q, "options": ["yes", "no"]} for q in ("Red?", "Blue?", "Green?")]
IN_PARTS: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/score", {"state": "The sky is blue.", "questions": SEVERAL}, "answers"),
    ("/v1/completions", {"prompt": ["The"] * (AT_ONCE + 4), "max_tokens": 1}, "choices"),
]


class Stopping:
    """A model whose server is told to end as soon as it is asked something."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self.stop = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)

    def submit(self, asked: Any) -> None:
        self.stop()
        self._llm.submit(asked)


@pytest.mark.parametrize(("path", "body", "parts"), IN_PARTS, ids=["score", "completions"])
def test_drain_lets_a_request_end_that_is_answered_in_parts(
    llm: LLM, path: str, body: dict[str, Any], parts: str
) -> None:
    stopping = Stopping(llm)
    with serving(stopping, drain_timeout=20) as running:
        stopping.stop = running.server.stop
        response = httpx2.post(running.url + path, json=body, timeout=30)
    assert response.status_code == 200, response.text
    assert len(response.json()[parts]) == len(body.get("questions") or body["prompt"])


def test_drain_ends_questions_that_have_no_end(llm: LLM) -> None:
    stopping = Stopping(llm)
    with serving(stopping, drain_timeout=0) as running:
        stopping.stop = running.server.stop
        body = {"state": "The sky. " * 500, "questions": SEVERAL * 20}
        response = httpx2.post(f"{running.url}/v1/score", json=body, timeout=30)
    assert response.status_code == 503, response.text
    assert "stopping" in response.json()["error"]["message"]
    _idle(llm)


def test_drain_has_an_end(llm: LLM) -> None:
    """What does not end in time gets an error event, not silence."""
    with serving(llm, drain_timeout=0) as running, httpx2.Client(base_url=running.url) as client:
        with client.stream("POST", "/v1/completions", json=ENDLESS) as old:
            lines = old.iter_lines()
            next(lines)
            running.server._loop.call_soon_threadsafe(running.server.stop)  # type: ignore[union-attr]
            last = [line for line in lines if line][-1]
        assert "stopping" in last
        assert "error" in last
    _idle(llm)


def test_a_wish_for_a_time_limit_ends_answers(llm: LLM) -> None:
    with serving(llm, request_timeout=1) as running, httpx2.Client(base_url=running.url) as client:
        body = ENDLESS | {"stream": False, "prompt": "z"}
        codes = [client.post("/v1/completions", json=body, timeout=30) for _ in range(1)]
        # A machine that makes 1900 tokens a second may be done in time.
        assert codes[0].status_code in (200, 504)
        if codes[0].status_code == 504:
            assert codes[0].json()["error"]["type"] == "timeout_error"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_too_slow_for_the_time_limit(
    llm: LLM, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 504; in a stream the tokens that there are, and an error event."""
    slow_down(llm, monkeypatch, 0.02)
    with serving(llm, request_timeout=1) as running, httpx2.Client(base_url=running.url) as client:
        begun = time.monotonic()
        body = ENDLESS | {"stream": stream, "prompt": "z"}
        response = client.post("/v1/completions", json=body, timeout=30)
        assert time.monotonic() - begun < 10
        if stream:
            chunks = [data for _, data in events(response) if "choices" in data]
            assert any(chunk["choices"][0]["text"] for chunk in chunks)
            error = events(response)[-1][1]["error"]
        else:
            assert response.status_code == 504
            error = response.json()["error"]
        assert error["type"] == "timeout_error"
        assert "deadline" in error["message"]
        running.await_idle()


def test_only_who_knows_the_token_ends_a_server(llm: LLM) -> None:
    with serving(llm) as running:
        running.service.stop_token = "abc"
        url = f"{running.url}/v1/colibri/stop"
        assert httpx2.post(url).status_code == 403
        assert httpx2.post(url, headers={"x-colibri-stop": "abd"}).status_code == 403
        assert httpx2.get(f"{running.url}/health/ready").status_code == 200
        assert httpx2.post(url, headers={"x-colibri-stop": "abc"}).status_code == 200
        _await(lambda: not _answers(running.url))


def test_pipelined_requests_are_answered_in_turn(llm: LLM) -> None:
    with serving(llm) as running, running.connect() as sock:
        one = raw_request("/health/live", b"", method="GET")
        sock.sendall(one * 3)
        received = b""
        while received.count(b'{"status":"live"}') < 3:
            received += sock.recv(4096)


def test_a_second_signal_insists(llm: LLM) -> None:
    with (
        serving(llm, drain_timeout=1000) as running,
        httpx2.Client(base_url=running.url) as client,
        client.stream("POST", "/v1/completions", json=ENDLESS) as old,
    ):
        lines = old.iter_lines()  # closed with its iterator
        next(lines)
        running.server.handle_exit(15, None)
        _await(lambda: running.service.state == "draining")
        running.server.handle_exit(15, None)
        _await(lambda: running.server.should_exit)
        client.close()
    _idle(llm)


def _answers(url: str) -> bool:
    host, port = url.removeprefix("http://").rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def _await(condition: Any) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def _idle(llm: LLM) -> None:
    _await(lambda: not llm.status().running and not llm.status().waiting)


def test_the_loop_is_not_held_up_by_the_engine(llm: LLM) -> None:
    """A request that is being computed, and health beside it."""
    with (
        serving(llm) as running,
        httpx2.Client(base_url=running.url) as client,
        client.stream("POST", "/v1/completions", json=ENDLESS) as old,
    ):
        lines = old.iter_lines()
        next(lines)
        status = httpx2.get(f"{running.url}/health").json()
        assert (status["active"], len(status["running"])) == (1, 1), status
    _idle(llm)


@pytest.fixture(autouse=True)
def _no_loop_is_left() -> Iterator[None]:
    yield
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
