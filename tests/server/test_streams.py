"""Server-sent events: signs of life, ends, errors in the middle."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server_kit import Running, Scripted, events, said, serving

from colibri import LLM
from colibri.engine.request import Event, Failed, Finished, PrefillProgress, Request, Token
from colibri.errors import ColibriError, QueueFullError, ReadError, StalledError, TokenizerError

STORY: Any = {"messages": [{"role": "user", "content": "Tell me a story."}], "seed": 1}
PATHS: list[tuple[str, Any]] = [
    ("/v1/chat/completions", STORY | {"max_tokens": 12}),
    ("/v1/completions", {"prompt": "The fox", "seed": 1, "max_tokens": 12}),
    ("/v1/messages", {"messages": STORY["messages"], "max_tokens": 12}),
]


def is_ended(path: str, found: list[tuple[str, Any]]) -> bool:
    """Whether the stream says that it is whole: the right end, once, and nothing behind it."""
    if path == "/v1/messages":
        reasons = [data["delta"]["stop_reason"] for name, data in found if name == "message_delta"]
        return len(reasons) == 1 and found[-1][0] == "message_stop"
    chunks = [data for _, data in found[:-1] if "choices" in data]
    reasons = [c["finish_reason"] for chunk in chunks for c in chunk["choices"]]
    return len([reason for reason in reasons if reason]) == 1 and found[-1][1] == "[DONE]"


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_streams_end_with_a_reason(http: httpx2.Client, path: str, body: Any) -> None:
    """B092."""
    for _ in range(5):
        response = http.post(path, json=body | {"stream": True})
        assert response.headers["content-type"].startswith("text/event-stream")
        assert is_ended(path, events(response))


def failing(error: Exception, after: int) -> Any:
    def script(request: Request) -> Iterable[Event]:
        yield PrefillProgress(0, len(request.prompt_ids), 0, 6, 0, 0.0, None)
        for _ in range(after):
            yield Token(50, None, ())
        yield Failed(error)

    return script


@pytest.mark.parametrize(("path", "body"), PATHS)
@pytest.mark.parametrize("after", [0, 3])
def test_an_error_in_the_middle_is_an_event(llm: LLM, path: str, body: Any, after: int) -> None:
    """B015, B074, B092: the stream says so and ends, without pretending to be whole."""
    with (
        serving(Scripted(llm, failing(ReadError("expert 3 cannot be read"), after))) as server,
        httpx2.Client(base_url=server.url) as http,
    ):
        response = http.post(path, json=body | {"stream": True})
        found = events(response)
        assert response.status_code == 200
        assert not is_ended(path, found)
        name, last = found[-1]
        assert "expert 3" in last["error"]["message"]
        assert name == ("error" if path == "/v1/messages" else "")
        whole = http.post(path, json=body)
        assert whole.status_code == 500
        assert "expert 3" in whole.json()["error"]["message"]
        assert http.get("/v1/models").status_code == 200  # and the server lives


@pytest.mark.parametrize(("path", "body"), PATHS)
@pytest.mark.parametrize("kind", [ReadError, TokenizerError])
def test_no_answer_names_a_folder_of_the_server(
    llm: LLM,
    path: str,
    body: dict[str, Any],
    kind: type[ColibriError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """4xx and 5xx, whole or as a stream; the log has it all."""
    caplog.set_level(logging.INFO, "colibri.server")
    message = f"{llm.container.path}/model.json: damaged; see {Path.home()}/a/notes.txt"
    with (
        serving(Scripted(llm, failing(kind(message), 1))) as server,
        httpx2.Client(base_url=server.url) as http,
    ):
        said = [http.post(path, json=body | {"stream": stream}).text for stream in (True, False)]
    for text in said:
        assert "model.json: damaged; see notes.txt" in text
        assert str(llm.container.path.parent) not in text
    if kind is ReadError:
        assert f"{llm.container.path}/model.json" in caplog.text


def test_what_nobody_foresaw_is_an_event_too(llm: LLM, caplog: pytest.LogCaptureFixture) -> None:
    path, body = PATHS[0]
    with (
        serving(Scripted(llm, failing(ZeroDivisionError("secret"), 2))) as server,
        httpx2.Client(base_url=server.url) as http,
    ):
        found = events(http.post(path, json=body | {"stream": True}))
        assert "ZeroDivisionError" in found[-1][1]["error"]["message"]
        assert "secret" not in found[-1][1]["error"]["message"]
        assert http.post(path, json=body).status_code == 500
    assert "internal error" in caplog.text


def test_a_full_queue_is_a_429_before_any_stream(llm: LLM) -> None:
    class Full(Scripted):
        def submit(self, asked: Any) -> None:
            raise QueueFullError("32 requests wait", 7.2)

    with (
        serving(Full(llm, said(llm, ""))) as server,
        httpx2.Client(base_url=server.url) as http,
    ):
        for path, body in PATHS:
            for stream in (False, True):
                response = http.post(path, json=body | {"stream": stream})
                assert response.status_code == 429
                assert response.headers["retry-after"] == "8"
                assert response.json()["error"]["type"] == "rate_limit_error"


def test_prefill_and_silence_are_told_in_comments(llm: LLM) -> None:
    """B090: tokens done, tokens in all and the time that is left; B091: silence ends in an error,
    which the engine's watchdog sends."""
    asked: list[Request] = []

    def script(request: Request) -> Iterable[Event]:
        asked.append(request)
        yield PrefillProgress(1000, 5000, 1, 6, 0, 2.0, 8.04)

    with (
        serving(Scripted(llm, script)) as server,
        httpx2.Client(base_url=server.url, timeout=20) as http,
        http.stream("POST", PATHS[0][0], json=PATHS[0][1] | {"stream": True}) as response,
    ):
        lines = response.iter_lines()
        comments = [next(line for line in lines if line.startswith(":")) for _ in range(2)]
        assert comments[0] == (
            ': {"state":"prefill","tokens_done":1000,"tokens_total":5000,"eta_seconds":8.0}'
        )
        assert comments[1].startswith(': {"state":"waiting"')
        asked[0].events.put(Failed(StalledError("no progress for 300 s")))
        assert any("no progress" in line for line in lines)


def test_progress_of_a_real_prompt(
    server: Running, http: httpx2.Client, llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B090: from its first token to its last, layer by layer, with the time that is left."""
    monkeypatch.setattr("colibri.server.respond.PROGRESS_SECONDS", 0.0)
    prompt = [(7 * i + i // 50) % 3000 + 100 for i in range(1500)]
    for path, body in PATHS[:2]:
        if path == "/v1/completions":
            asked = body | {"prompt": prompt}
        else:
            assert llm.tokenizer is not None
            text = llm.tokenizer.decode(prompt)
            asked = body | {"messages": [{"role": "user", "content": text}]}
        found = events(http.post(path, json=asked | {"stream": True}))
        told = [data for name, data in found if name == ":" and data["state"] == "prefill"]
        assert len(told) > 3
        totals = {data["tokens_total"] for data in told}
        assert len(totals) == 1
        assert totals.pop() >= 1500
        done = [data["tokens_done"] for data in told]
        assert done == sorted(done)
        assert 0 <= done[0] < done[-1] <= told[0]["tokens_total"]
        assert all(data["eta_seconds"] is None or data["eta_seconds"] >= 0 for data in told)
        assert any(data["eta_seconds"] is not None for data in told)
    server.await_idle()


def test_parallel_streams_are_each_their_own(http: httpx2.Client) -> None:
    """B073: two at once equal what each is alone."""
    bodies = [
        {"prompt": prompt, "seed": 3, "max_tokens": 40, "stream": True, "ignore_eos": True}
        for prompt in ("The hummingbird", "Once upon a time, a bear")
    ]
    alone = [_text(http, body) for body in bodies]
    together: list[str] = ["", ""]

    def run(at: int) -> None:
        together[at] = _text(http, bodies[at])

    threads = [threading.Thread(target=run, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
    assert alone[0] != alone[1]


def _text(http: httpx2.Client, body: Any) -> str:
    found = events(http.post("/v1/completions", json=body))
    return "".join(data["choices"][0]["text"] for name, data in found[:-1] if name != ":")


def test_emoji_and_chinese_are_whole_in_streams(llm: LLM) -> None:
    """B068: characters of several tokens."""
    text = "Ein 🦊 und 狐狸, 👩‍👩‍👧 … ok"
    with (
        serving(Scripted(llm, said(llm, text))) as server,
        httpx2.Client(base_url=server.url) as http,
    ):
        found = events(http.post(PATHS[0][0], json=PATHS[0][1] | {"stream": True}))
        deltas = [d["choices"][0]["delta"].get("content", "") for n, d in found[:-1] if n != ":"]
        assert "".join(deltas) == text
        assert not any("\N{REPLACEMENT CHARACTER}" in delta for delta in deltas)


def test_a_stop_string_never_leaks(llm: LLM) -> None:
    """B069: held text comes if it was none, and goes if it was."""
    for stop, shown in (("END", "The "), ("EMPTY", "The EN is no END of it")):
        with (
            serving(Scripted(llm, said(llm, "The EN is no END of it"))) as server,
            httpx2.Client(base_url=server.url) as http,
        ):
            body = PATHS[0][1] | {"stop": [stop]}
            found = events(http.post(PATHS[0][0], json=body | {"stream": True}))
            deltas = [
                d["choices"][0]["delta"].get("content", "") for n, d in found[:-1] if n != ":"
            ]
            whole = http.post(PATHS[0][0], json=body).json()["choices"][0]["message"]["content"]
            assert "".join(deltas) == whole
            if stop == "END":
                assert whole == "The EN is no "
            else:
                assert whole == shown


def test_a_slow_reader_does_not_hold_the_others(server: Running) -> None:
    """Its answer waits for it; theirs do not."""
    with server.connect() as sock, httpx2.Client(base_url=server.url, timeout=20) as http:
        body = b'{"prompt":"The fox","max_tokens":1500,"stream":true,"ignore_eos":true}'
        sock.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
            b"\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        time.sleep(0.1)
        answer = http.post("/v1/completions", json={"prompt": "A cat", "max_tokens": 3})
        assert answer.status_code == 200
    server.await_idle()


def test_finished_script_without_tokens_is_an_empty_answer(llm: LLM) -> None:
    with (
        serving(Scripted(llm, lambda _request: [Finished("stop")])) as server,
        httpx2.Client(base_url=server.url) as http,
    ):
        answer = http.post(PATHS[0][0], json=PATHS[0][1]).json()
        assert answer["choices"][0]["message"]["content"] == ""
        assert http.post(PATHS[2][0], json=PATHS[2][1]).json()["content"] == []
