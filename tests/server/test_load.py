"""What takes minutes: thousands of requests, many clients at once, a fuzzer."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from server_kit import Running, Scripted, events, raw_request, said, serving

from colibri import LLM
from colibri.hardware import probe

pytestmark = pytest.mark.soak

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


def test_ten_thousand_malformed_requests(llm: LLM) -> None:
    """B075: never a 5xx."""
    rng = random.Random(1)
    scripted = Scripted(llm, said(llm, "Hello there"))
    kind = {"content-type": "application/json"}
    counts: dict[int, int] = {}
    with (
        serving(scripted) as fast,
        serving(llm) as real,
        httpx2.Client(timeout=60) as http,
    ):
        for _ in range(10_000):
            path = rng.choice(list(VALID))
            data = body(rng, path)
            server = real if path == "/v1/score" else fast
            response = http.post(f"{server.url}{path}", content=data, headers=kind)
            counts[response.status_code] = counts.get(response.status_code, 0) + 1
            assert response.status_code < 500, (path, data, response.text)
        assert counts[400] > 5000


def test_memory_stays_over_a_thousand_requests(llm: LLM) -> None:
    bodies = [
        {"prompt": f"The number {at} is", "max_tokens": 4, "stream": bool(at % 2)}
        for at in range(1000)
    ]
    with serving(llm) as server, httpx2.Client(base_url=server.url, timeout=60) as http:
        for one in bodies[:800]:  # until the room for prefixes was touched once
            http.post("/v1/completions", json=one)
        before = probe.rss_bytes()
        for one in bodies:
            assert http.post("/v1/completions", json=one).status_code == 200
        assert probe.rss_bytes() < 1.02 * before


def test_a_hundred_clients_on_a_queue_of_eight(thinker: LLM) -> None:
    """Each is answered or told to come again, and each stream ends as it should."""
    del thinker  # its files are what is wanted: a model of its own
    with LLM(ram="800MB", context=2048, max_queue=8) as model, serving(model) as server:

        def ask(at: int) -> str:
            asked = {"prompt": f"Story {at}:", "max_tokens": 900, "stream": True, "seed": at}
            with httpx2.Client(base_url=server.url, timeout=120) as http:
                response = http.post("/v1/completions", json=asked)
            if response.status_code == 429:
                assert int(response.headers["retry-after"]) >= 1
                return "later"
            assert response.status_code == 200
            found = events(response)
            assert found[-1][1] == "[DONE]"
            reasons = [d["choices"][0]["finish_reason"] for n, d in found[:-1] if n != ":"]
            assert reasons[-1] in ("stop", "length")
            return "answered"

        with ThreadPoolExecutor(100) as clients:
            outcomes = list(clients.map(ask, range(100)))
        assert outcomes.count("answered") >= 9
        assert set(outcomes) <= {"answered", "later"}
        server.await_idle()


def test_two_hundred_streams_all_end(http: httpx2.Client) -> None:
    """B092."""
    for seed in range(200):
        asked = {"messages": [{"role": "user", "content": "Hi"}], "seed": seed, "stream": True}
        found = events(http.post("/v1/chat/completions", json=asked | {"max_tokens": 20}))
        reasons = [d["choices"][0]["finish_reason"] for n, d in found[:-1] if n != ":"]
        assert found[-1][1] == "[DONE]"
        assert reasons[-1] in ("stop", "length")


def test_three_hundred_slow_clients_hold_nobody_up(llm: LLM) -> None:
    with serving(llm, head_timeout=2.0, body_timeout=2.0) as server:
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(server.connect()) for _ in range(300)]
            request = raw_request("/v1/completions", b'{"prompt":"x"}')
            for at, sock in enumerate(slow):
                sock.sendall(request[: at % len(request)])
            begun = time.monotonic()
            answer = httpx2.post(
                f"{server.url}/v1/completions", json={"prompt": "A cat", "max_tokens": 2}
            )
            assert answer.status_code == 200
            assert time.monotonic() - begun < 5
            time.sleep(3)
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


def test_clients_that_leave_at_random(server: Running) -> None:
    rng = random.Random(3)
    for _ in range(300):
        with server.connect() as sock:
            asked = b'{"prompt":"The fox","max_tokens":300,"stream":%s}' % rng.choice(
                [b"true", b"false"]
            )
            sock.sendall(raw_request("/v1/completions", asked))
            time.sleep(rng.random() * 0.05)
    server.await_idle()
    answer = httpx2.post(f"{server.url}/v1/completions", json={"prompt": "x", "max_tokens": 1})
    assert answer.status_code == 200


@pytest.mark.filterwarnings("default")  # the fuzzer's own
def test_the_description_fuzzed(llm: LLM) -> None:
    """schemathesis: never a 5xx, and every answer is of the form that the description gives."""
    import schemathesis
    from hypothesis import HealthCheck, given, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    ]
    with serving(llm, {"max_tokens": 2}) as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        for result in schema.get_all_operations():
            operation = result.ok()

            @given(case=operation.as_strategy())
            @settings(
                max_examples=60,
                deadline=None,
                database=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            )
            def fuzz(case: Any) -> None:
                if case.media_type == "application/json" and isinstance(case.body, dict):
                    for name in ("max_tokens", "max_completion_tokens"):
                        if isinstance(case.body.get(name), int):
                            case.body[name] = min(case.body[name], 3)
                response = case.call(base_url=server.url)
                case.validate_response(response, checks=checks)

            fuzz()
