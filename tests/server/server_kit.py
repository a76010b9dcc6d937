"""A server in the test's own process, and clients that misbehave."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from colibri import LLM
from colibri.config import ServerConfig
from colibri.engine.request import Event, Finished, Request, Token
from colibri.llm import embedded_model
from colibri.server.service import Service
from colibri.server.serving import Server, bind, url_of

MODEL = "demo"


@dataclass
class Running:
    url: str
    service: Service
    server: Server

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20)

    def await_idle(self) -> None:
        """Until nothing is answered and the engine has nothing to do."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            llm = self.service.any_llm
            assert llm is not None
            status = llm.status()
            if not (self.service.active or status.running or status.waiting):
                return
            time.sleep(0.01)
        raise AssertionError(f"still busy: {self.service.active}, {status}")


def slow_down(llm: LLM, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Each layer of the model takes so much longer."""
    steps = llm._engine._steps
    before_layer = steps._before_layer

    def slow(layer: int) -> None:
        time.sleep(seconds)
        before_layer(layer)

    monkeypatch.setattr(steps, "_before_layer", slow)


@contextlib.contextmanager
def serving(
    llm: Any,
    sampling: dict[str, Any] | None = None,
    *,
    held: threading.Event | None = None,
    **config: Any,
) -> Iterator[Running]:
    """The model is the caller's and stays open. held: it is being loaded until then."""
    settings = ServerConfig(**{"port": 0, "model_id": MODEL, "keepalive": 1} | config)
    listening = bind(settings)
    service = Service(settings, sampling)

    def load() -> Any:
        assert held is None or held.wait(60)
        return llm

    server = Server(service, load, MODEL)
    ready = threading.Event()
    server.on_ready = ready.set
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    assert held is not None or ready.wait(20), server.failure
    try:
        yield Running(url_of(listening), service, server)
    finally:
        assert server._loop is not None
        with contextlib.suppress(RuntimeError):
            server._loop.call_soon_threadsafe(server.stop)
        thread.join(30)
        listening.close()
        assert not thread.is_alive()


def events(response: httpx2.Response) -> list[tuple[str, Any]]:
    """Of a stream that was read: (event's name, its data); comments have the name ":"."""
    found = []
    for block in response.text.split("\n\n"):
        name, data = "", None
        for line in block.split("\n"):
            if line.startswith(": "):
                found.append((":", json.loads(line[2:])))
            elif line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
        if data is not None:
            found.append((name, data if data == "[DONE]" else json.loads(data)))
    return found


def raw_request(path: str, body: bytes, *headers: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    if body:
        lines.append("Content-Type: application/json")
    return "\r\n".join([*lines, *headers]).encode() + b"\r\n\r\n" + body


def raw_response(sock: socket.socket, buffer: bytes = b"") -> tuple[int, bytes, bytes]:
    """Status, body, and what was read beyond; of a response with a length."""
    while b"\r\n\r\n" not in buffer:
        buffer += _some(sock)
    head, _, rest = buffer.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length")
    )
    while len(rest) < length:
        rest += _some(sock)
    return int(head.split(b" ")[1]), rest[:length], rest[length:]


def _some(sock: socket.socket) -> bytes:
    data = sock.recv(65536)
    if not data:
        raise ConnectionError("closed")
    return data


class Scripted:
    """A model whose answers are written beforehand: everything is the real one's but the engine."""

    def __init__(self, llm: LLM, script: Callable[[Request], Iterable[Event]]) -> None:
        self._llm, self._script = llm, script
        self.submitted: list[Request] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)

    def submit(self, asked: Any) -> None:
        self.submitted.append(asked.request)
        for event in self._script(asked.request):
            asked.request.events.put(event)


def said(llm: LLM, text: str, reason: Any = "stop") -> Callable[[Request], Iterable[Event]]:
    """The script of an answer that is this text, a token at a time."""
    assert llm.tokenizer is not None
    ids = llm.tokenizer.encode(text, add_special_tokens=False)
    events = [*(Token(token_id, None, ()) for token_id in ids), Finished(reason)]
    return lambda _request: events


class Unhurried(Scripted):
    """The same on a thread, as an engine has one: a script may wait, and is left when cancelled."""

    def submit(self, asked: Any) -> None:
        self.submitted.append(asked.request)
        threading.Thread(target=self._tell, args=(asked.request,), daemon=True).start()

    def _tell(self, request: Request) -> None:
        for event in self._script(request):
            if request.cancelled:
                return
            request.events.put(event)


def thinking_model(folder: Path) -> Path:
    """The embedded model with its family's own template, which knows reasoning and tools."""
    folder.mkdir()
    for path in embedded_model().iterdir():
        if path.name != "chat_template.jinja" and path.is_file():
            (folder / path.name).symlink_to(path)
    return folder
