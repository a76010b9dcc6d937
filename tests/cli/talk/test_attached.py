"""A conversation with a server: the answers are those of the model loaded here."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from server_kit import serving

from colibri.cli.generation import Answer, Plain, write_stream
from colibri.cli.talk.attached import Attached
from colibri.cli.talk.backend import Backend, Wishes
from colibri.cli.talk.http import Client
from colibri.cli.talk.local import Local
from colibri.errors import CapacityError, ColibriError, ConfigError, QueueFullError
from colibri.grammar.structure import Structure
from colibri.llm import LLM

MESSAGES = [{"role": "user", "content": "Hello! Who are you?"}]
GREEDY = {"temperature": 0.0, "max_tokens": 24}


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(ram="2GB", context=1024) as model:
        yield model


@pytest.fixture(scope="module")
def url(llm: LLM) -> Iterator[str]:
    with serving(llm, api_key="secret") as running:
        yield running.url


def attached(url: str) -> Attached:
    return Attached(Client(url, "secret"))


def answered(backend: Backend, wishes: Wishes, messages: Any = MESSAGES) -> Answer:
    answer = Answer()
    write_stream(
        lambda on_progress: backend.stream(messages, wishes, on_progress),
        answer,
        quiet=True,
        show=Plain(quiet=True),
    )
    return answer


@pytest.mark.parametrize(
    "given",
    [
        GREEDY,
        {"seed": 5, "max_tokens": 24, "top_k": 9, "min_p": 0.01, "stop": ("e b",)},
        {"temperature": 0.0, "logit_bias": {300: 50.0}, "ignore_eos": True, "max_tokens": 9},
        {"temperature": 0.0, "structure": Structure.choice(["red", "blue"])},
        {"temperature": 0.0, "structure": Structure("regex", "[ab]{3}")},
        {"temperature": 0.0, "structure": Structure("gbnf", 'root ::= "x" "y"')},
        {"temperature": 0.0, "structure": Structure.json_schema({"enum": [1, 2]})},
    ],
)
def test_an_answer_is_the_local_one_and_is_what_is_shown(
    llm: LLM, url: str, given: dict[str, Any], capsys: Any
) -> None:
    wishes = Wishes(given)
    local = answered(Local(llm), wishes)
    capsys.readouterr()
    remote = answered(attached(f"{url}/v1/"), wishes)
    assert capsys.readouterr().out == remote.text == local.text == llm_text(llm, given)
    assert remote.finish_reason == local.finish_reason


def llm_text(llm: LLM, given: dict[str, Any]) -> str:
    import dataclasses

    return llm.chat(MESSAGES, dataclasses.replace(llm.default_params, **given)).text


def test_facts_and_tokens(llm: LLM, url: str) -> None:
    backend = attached(url)
    answer = answered(backend, Wishes(GREEDY))
    local = answered(Local(llm), Wishes(GREEDY))
    assert 0 <= len(local.token_ids) - backend.tokens(answer) <= 1  # the end's token
    prompt, written, server = backend.facts(answer)
    assert "first token after" in prompt
    assert "known before" in prompt
    assert f"{backend.tokens(answer)} tokens in" in written
    assert url in server


def test_scores_are_the_local_ones(llm: LLM, url: str) -> None:
    options = ["Colibri", "A bird, I think"]
    local, remote = (b.score(MESSAGES, options) for b in (Local(llm), attached(url)))
    assert remote.choices == local.choices
    assert (remote.entropy, remote.warnings) == (local.entropy, local.warnings)


def test_what_the_model_cannot_do_is_said_once_as_it_is_here(
    llm: LLM, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    wishes = Wishes(GREEDY, {"thinking": True})
    note = "thinking on: this model's template knows no reasoning"
    for backend in (Local(llm), attached(url)):
        caplog.clear()
        answered(backend, wishes)
        answered(backend, wishes)
        said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        assert said.count(note) == 1, said


def test_hanging_up_ends_the_answer(llm: LLM, url: str) -> None:
    wishes = Wishes({"max_tokens": 900, "ignore_eos": True})
    chunks = attached(url).stream(MESSAGES, wishes, None)
    assert next(chunk.text for chunk in chunks if chunk.text)
    assert llm.status().running
    chunks.close()  # type: ignore[attr-defined]
    for _ in range(1000):
        if not llm.status().running:
            return
        threading.Event().wait(0.01)
    raise AssertionError("still running")


def test_errors_are_the_servers_own_words(url: str) -> None:
    with pytest.raises(ConfigError, match="COLI_API_KEY"):
        Attached(Client(url, "wrong"))
    with pytest.raises(CapacityError, match="leaves room for 1023"):
        answered(attached(url), Wishes(), [{"role": "user", "content": "word " * 2000}])
    with pytest.raises(ConfigError, match="temperature"):
        answered(attached(url), Wishes({"temperature": 9.0}))


@pytest.mark.parametrize("bad", ["ftp://x", "http://", "http://[::1", "http://x:99999", ""])
def test_no_url(bad: str) -> None:
    with pytest.raises(ConfigError, match="--attach"):
        Client(bad, None)


def test_nobody_there() -> None:
    with pytest.raises(ColibriError, match="is a server running there"):
        Client("http://127.0.0.1:9", None).get("/v1/models")


@contextmanager
def other_server(answer: Callable[[], tuple[int, bytes]]) -> Iterator[str]:
    """Another program that speaks the API, more or less."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(200, b'{"data": [{"id": "m"}]}')

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.reply(*answer())

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("retry-after", "7")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def event(**delta: Any) -> bytes:
    reason = delta.pop("finish_reason", None)
    frame = {"choices": [{"delta": delta, "finish_reason": reason}]}
    return b"data: " + json.dumps(frame).encode() + b"\n\n"


def test_reasoning_progress_and_strangers_comments() -> None:
    prefill = {"state": "prefill", "tokens_done": 5, "tokens_total": 9, "eta_seconds": 1.5}
    body = b": PROCESSING\n\n: " + json.dumps(prefill).encode() + b"\n\n: {}\n\n"
    body += event(role="assistant", content="") + event(reasoning_content="Hm.")
    body += event(reasoning=" So.") + event(content="Yés\r\n") + b"event: x\r\n"
    body += event(finish_reason="length").replace(b"\n", b"\r\n") + b"data: [DONE]\n\n"
    seen: list[Any] = []
    with other_server(lambda: (200, body)) as url:
        backend = Attached(Client(url, None))
        chunks = list(backend.stream(MESSAGES, Wishes(), seen.append))
        assert backend.facts(Answer())[0] == "prompt   not told"
    assert "".join(c.text for c in chunks) == "Yés\r\n"
    assert "".join(c.reasoning for c in chunks) == "Hm. So."
    assert chunks[-1].finish_reason == "length"
    (progress,) = seen
    assert (progress.tokens_done, progress.tokens_total, progress.eta_seconds) == (5, 9, 1.5)


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (200, event(content="par"), ColibriError, "ended before the answer did"),
        (200, b"data: {oops\n\n", ColibriError, "no JSON object"),
        (
            200,
            b'data: {"error": {"message": "disk gone\x1b[2J"}}\n\n',
            ColibriError,
            "disk gone\ufffd",
        ),
        (200, b'data: {"error": "flat"}\n\n', ColibriError, "flat"),
        (429, b'{"error": {"message": "full"}}', QueueFullError, "full; try again in 7 s"),
        (500, b"<html>", ColibriError, "HTTP status 500"),
        (302, b"", ColibriError, "HTTP status 302"),
        (404, b"[]", ConfigError, "HTTP status 404"),
    ],
)
def test_what_goes_wrong_is_said(
    status: int, body: bytes, kind: type[Exception], words: str
) -> None:
    if b"\x1b" in body:
        body = body.replace(b"\x1b", b"\\u001b")
    with other_server(lambda: (status, body)) as url:
        backend = Attached(Client(url, None))
        with pytest.raises(kind, match=words.replace("[", r"\[")):
            list(backend.stream(MESSAGES, Wishes(), None))


def test_scores_of_a_stranger() -> None:
    with other_server(lambda: (200, b'{"choices": [1]}')) as url:
        backend = Attached(Client(url, None))
        with pytest.raises(ColibriError, match="no known form"):
            backend.score(MESSAGES, ["a", "b"])


def test_the_command(coli: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLI_API_KEY", "secret")
    flags = ("--attach", url, "--temperature", "0", "--max-tokens", "24")
    outcome = coli("chat", *flags, stdin=["Hello! Who are you?", "/brio Is it? yes | no"])
    assert outcome.code == 0
    assert "Colibri" in outcome.out
    assert "\x1b" not in outcome.out
    assert "entropy 0." in outcome.out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--attach", "http://x", "--ram", "9GB"], "--ram does not go with --attach"),
        (["--attach", "http://x", "-m", "dir"], "--model does not go with --attach"),
        (["--api-key", "x"], "--api-key is for --attach"),
        (["--attach", "http://x", "--api-key", "a\nb"], "--api-key: an API key is"),
    ],
)
def test_flags_that_do_not_go_together(coli: Any, flags: list[str], words: str) -> None:
    outcome = coli("chat", *flags)
    assert outcome.code == 2
    assert words in outcome.err


@pytest.mark.parametrize("key", ["", " ", " key", "key ", "a\nb", "schlüssel"])
def test_one_rule_for_keys(coli: Any, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server takes no key that a client cannot give, nor the other way round."""
    served = coli("serve", "--api-key", key)
    asked = coli("chat", "--attach", "http://127.0.0.1:9", "--api-key", key)
    assert served.code == asked.code == 2
    assert served.err == asked.err
    assert "--api-key: an API key is" in asked.err
    monkeypatch.setenv("COLI_API_KEY", key)
    asked = coli("chat", "--attach", "http://127.0.0.1:9")
    assert ("COLI_API_KEY: an API key is" in asked.err) == bool(key)  # an empty one is unset
