"""Thousands of requests, many clients at once, clients that want no good: always in the small, at
full size by `make soak`."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from server_kit import Running, Scripted, events, raw_request, said, serving
from test_disconnects import reset

from colibri import LLM
from colibri.hardware import probe

pytestmark = pytest.mark.alone

SOAK = pytest.mark.soak
HELLO: Any = [{"role": "user", "content": "Hello"}]
VALID: dict[str, Any] = {
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": "Hello"}],
        "temperature": 0.5,
        "max_tokens": 2,
        "stop": ["x"],
        "n": 1,
        "logit_bias": {"5": 1},
        "stream": False,
        "response_format": {"type": "text"},
        "tools": None,
        "seed": 1,
    },
    "/v1/completions": {"prompt": "Hello", "max_tokens": 2, "echo": False, "logprobs": 1},
    "/v1/messages": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "max_tokens": 2,
        "system": "x",
        "stop_sequences": ["y"],
    },
    "/v1/score": {"state": "Hello", "options": ["a", "b"], "normalize": "mean"},
}
ODD: list[Any] = [None, True, -1, 0, 1.5, 1e300, 10**30, "", "x", "\x00", "\ud83e\udd8a", [], {}]
ODD += [
    [[]],
    {"a": {}},
    ["x"] * 50,
    "y" * 5000,
    {"type": "x"},
    [None],
    [{}],
    2**63,
    float("1e-300"),
]


def mutated(rng: random.Random, value: Any) -> Any:
    """The value with one place in it changed."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        changed = dict(value)
        if rng.random() < 0.1:
            changed[f"no_{key}"] = changed.pop(key)
        else:
            changed[key] = mutated(rng, value[key])
        return changed
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], mutated(rng, value[at]), *value[at + 1 :]]
    return rng.choice(ODD)


def body(rng: random.Random, path: str) -> bytes:
    data = json.dumps(mutated(rng, VALID[path])).encode()
    if rng.random() < 0.2:
        at = rng.randrange(len(data))
        data = data[:at] + bytes([rng.randrange(256)]) * rng.randrange(3) + data[at + 1 :]
    return data


def few_or(many: int, few: int) -> Any:
    """A parameter: few always, many in soak."""
    return [pytest.param(few, id=str(few)), pytest.param(many, id=str(many), marks=SOAK)]


@pytest.mark.parametrize("count", few_or(10_000, 200))
def test_malformed_requests(llm: LLM, count: int) -> None:
    """B075: never a 5xx."""
    rng = random.Random(count)
    scripted = Scripted(llm, said(llm, "Hello there"))
    kind = {"content-type": "application/json"}
    counts: dict[int, int] = {}
    with (
        serving(scripted) as fast,
        serving(llm) as real,
        httpx2.Client(timeout=60) as http,
    ):
        for _ in range(count):
            path = rng.choice(list(VALID))
            data = body(rng, path)
            server = real if path == "/v1/score" else fast
            response = http.post(f"{server.url}{path}", content=data, headers=kind)
            counts[response.status_code] = counts.get(response.status_code, 0) + 1
            assert response.status_code < 500, (path, data, response.text)
    assert counts[400] > count / 2


def any_request(at: int) -> tuple[str, Any]:
    """Of every kind in turn, no two the same: answers, streams, structures, refusals."""
    hello = [{"role": "user", "content": f"Say {at}"}]
    few: dict[str, Any] = {"max_tokens": 4, "stream": bool(at // 8 % 2), "seed": at}
    chat, messages = "/v1/chat/completions", "/v1/messages"
    pattern = {"type": "regex", "pattern": f"[a-z]{{1,{at % 50 + 1}}}{at}"}
    kinds: tuple[tuple[str, Any], ...] = (
        ("/v1/completions", {"prompt": f"The number {at} is", **few}),
        (chat, {"messages": hello, "n": 2, "logprobs": True, "top_logprobs": 3, **few}),
        (
            chat,
            {"messages": hello, "response_format": {"type": "regex", "pattern": pattern}, **few},
        ),
        (messages, {"messages": hello, "max_tokens": 3, "stream": few["stream"]}),
        ("/v1/score", {"state": f"It is {at}", "options": [" yes", " no"]}),
        (chat, {"messages": hello, f"field_{at}": at}),
        ("/v1/completions", {"prompt": f"{at} " * 3000}),
        (f"/v1/{at}", {}),
    )
    return kinds[at % 8]


def some_leave(server: Running, at: int) -> None:
    sock = server.connect()
    prompt = b'{"prompt":"%d","max_tokens":200,"ignore_eos":true,"stream":true}' % at
    sock.sendall(raw_request("/v1/completions", prompt))
    reset(sock)


@pytest.mark.soak
def test_memory_stays_over_a_thousand_requests() -> None:
    """After the room for prefixes was touched once: within 2 %."""
    with (
        LLM(ram="2GB", context=2048) as llm,
        serving(llm) as server,
        httpx2.Client(base_url=server.url, timeout=60) as http,
    ):

        def ask(some: range) -> None:
            for at in some:
                path, asked = any_request(at)
                assert http.post(path, json=asked).status_code in (200, 400, 404), (path, asked)
                if at % 10 == 0:
                    some_leave(server, at)
            server.await_idle()

        ask(range(1000))
        before = probe.rss_bytes()
        ask(range(1000, 2000))
        after = probe.rss_bytes()
    print(f"RSS {before / 1e6:.1f} MB, after a thousand requests {after / 1e6:.1f} MB")
    assert after < 1.02 * before


@pytest.mark.parametrize(("clients", "queue"), [(12, 1), pytest.param(100, 8, marks=SOAK)])
def test_many_clients_on_a_short_queue(clients: int, queue: int) -> None:
    """Each is answered or told when to come again; who does gets its answer, in the end everybody,
    and each stream ends as it should."""
    with LLM(ram="2GB", context=512, max_queue=queue) as model, serving(model) as server:
        begun = threading.Barrier(clients)

        def ask(at: int) -> int:
            """How often it was sent away."""
            asked = {"prompt": f"Story {at}:", "max_tokens": 120, "stream": True, "seed": at}
            begun.wait(30)
            for attempt in range(200):
                with httpx2.Client(base_url=server.url, timeout=120) as http:
                    response = http.post("/v1/completions", json=asked | {"ignore_eos": True})
                if response.status_code != 429:
                    assert response.status_code == 200
                    assert reason_of("/v1/completions", events(response)) == "length"
                    return attempt
                seconds = int(response.headers["retry-after"])
                assert 1 <= seconds <= 600
                time.sleep(min(seconds, 5))
            raise AssertionError("never answered")

        with ThreadPoolExecutor(clients) as pool:
            attempts = list(pool.map(ask, range(clients)))
        server.await_idle()
        assert model.status().stats.ended["length"] == clients
    sent_away = [attempt for attempt in attempts if attempt]
    print(f"{len(sent_away)} of {clients} were sent away, at most {max(attempts)} times")
    assert len(sent_away) >= clients - 2 * queue - 10
    assert max(attempts) < 60


def reason_of(path: str, found: list[tuple[str, Any]]) -> str:
    """How a stream says that it ended; once, and nothing behind it."""
    assert found[-1][0] in ("", "message_stop", "error"), found[-3:]
    told = [data for name, data in found if name != ":"]
    if isinstance(told[-1], dict) and "error" in told[-1]:
        assert "[DONE]" not in told
        return "error"
    if path == "/v1/messages":
        assert found[-1][0] == "message_stop"
        (reason,) = (d["delta"]["stop_reason"] for name, d in found if name == "message_delta")
    else:
        assert told[-1] == "[DONE]"
        choices = (choice for data in told[:-1] for choice in data["choices"])
        (reason,) = (c["finish_reason"] for c in choices if c["finish_reason"])
    assert isinstance(reason, str)
    return reason


@pytest.mark.parametrize("count", few_or(1000, 24))
def test_every_stream_ends(count: int) -> None:
    """B092: with a reason or an error event, also where time runs out in the middle."""
    with (
        LLM(ram="2GB", context=2048, max_queue=200) as llm,
        serving(llm, request_timeout=1) as server,
        httpx2.Client(base_url=server.url, timeout=120) as http,
    ):

        def ask(at: int) -> str:
            how = {"max_tokens": (3, 30, 1500)[at // 3 % 3], "stream": True}
            path, asked = (
                ("/v1/completions", {"prompt": f"{at}", "ignore_eos": True, "seed": at}),
                ("/v1/chat/completions", {"messages": HELLO, "seed": at}),
                ("/v1/messages", {"messages": HELLO}),
            )[at % 3]
            response = http.post(path, json=asked | how)
            return reason_of(path, events(response)) if response.status_code == 200 else "refused"

        with ThreadPoolExecutor(16) as pool:
            reasons = list(pool.map(ask, range(count)))
        server.await_idle()
    known = {"stop", "length", "end_turn", "max_tokens", "error"}
    assert set(reasons) <= known, set(reasons) - known


@pytest.mark.parametrize("count", few_or(400, 30))
def test_slow_clients_hold_nobody_up(llm: LLM, count: int) -> None:
    """Slow-loris: heads and bodies that come a byte at a time end when their time is over."""
    with serving(llm, head_timeout=2.0, body_timeout=2.0) as server:
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(server.connect()) for _ in range(count)]
            request = raw_request("/v1/completions", b'{"prompt":"%s"}' % (b"x" * 200))
            left = [request[at % (len(request) - 60) :] for at in range(count)]
            for sock, rest in zip(slow, left, strict=True):
                sock.sendall(request[: len(request) - len(rest)])
            until, waits, dropped = time.monotonic() + 4, [], 0
            while time.monotonic() < until:
                begun = time.monotonic()
                asked = {"prompt": "A cat", "max_tokens": 2}
                answer = httpx2.post(f"{server.url}/v1/completions", json=asked, timeout=30)
                assert answer.status_code == 200
                waits.append(time.monotonic() - begun)
                for at, sock in enumerate(slow):
                    try:
                        sock.sendall(left[at][:1])
                        left[at] = left[at][1:]
                    except OSError:
                        dropped += 1
                time.sleep(0.1)
            print(f"{count} slow clients: others waited {max(waits):.2f} s at most")
            assert max(waits) < 5
            assert all(left)  # nobody was patient enough to be read to the end
            assert sum(_is_open(sock) for sock in slow) == 0
        server.await_idle()


def _is_open(sock: socket.socket) -> bool:
    sock.settimeout(0.01)
    try:
        return sock.recv(1, socket.MSG_PEEK) == b"" and False
    except TimeoutError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize("count", few_or(1000, 40))
def test_clients_that_leave_at_random(server: Running, count: int) -> None:
    rng = random.Random(3)
    for _ in range(count):
        with server.connect() as sock:
            asked = b'{"prompt":"The fox","max_tokens":300,"stream":%s}' % rng.choice(
                [b"true", b"false"]
            )
            sock.sendall(raw_request("/v1/completions", asked))
            time.sleep(rng.random() * 0.05)
    server.await_idle()
    answer = httpx2.post(f"{server.url}/v1/completions", json={"prompt": "x", "max_tokens": 1})
    assert answer.status_code == 200
