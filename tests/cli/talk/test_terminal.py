"""`coli chat` in a terminal: what a person types, and what then stands on the screen."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server_kit import Running, serving, slow_down

from cli.talk.pty_kit import Terminal, terminal, without_styles
from cli.talk.test_attached import event, other_server
from colibri.llm import LLM

HELLO = "Hello! Who are you?"
GREEDY = ("--temperature", "0", "--max-tokens", "24")
MODEL = ("--ram", "700MB", "--context", "1024")

SLOW = """
import time
from colibri.engine.steps import Steps
before_layer = Steps._before_layer
Steps._before_layer = lambda steps, layer: (time.sleep(0.003), before_layer(steps, layer))[1]
"""


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(ram="2GB", context=1024) as model:
        yield model


@pytest.fixture(scope="module")
def server(llm: LLM) -> Iterator[Running]:
    with serving(llm, api_key="secret") as running:
        yield running


def answer_of(llm: LLM, question: str) -> str:
    from dataclasses import replace

    params = replace(llm.default_params, temperature=0.0, max_tokens=24)
    return llm.chat([{"role": "user", "content": question}], params).text


def attached(server: Running, *flags: str, **environ: Any) -> Any:
    return terminal("chat", "--attach", server.url, *flags, COLI_API_KEY="secret", **environ)


def leave(person: Terminal) -> None:
    person.type("\x04")
    assert person.end() == 0
    assert "Traceback" not in person.text


def test_a_session_with_a_server(llm: LLM, server: Running, tmp_path: Path) -> None:
    """B097: screen text is API text. A paste is one message; commands, completion, history."""
    history, saved = tmp_path / "history", tmp_path / "talk.json"
    with attached(server, *GREEDY, "--history", str(history)) as person:
        person.ready()
        person.say(HELLO)
        shown = person.ready()
        assert shown.endswith(f"\n{answer_of(llm, HELLO)}"), shown
        person.say("/clear")
        person.ready()
        person.paste("first line\r\nsecond line\n\tthird")
        time.sleep(0.3)
        assert server.service.active == 0  # nothing is sent before Enter
        person.type("\r")
        person.ready()
        person.type("/sav\t")
        person.wait(r"/sav\W*e")  # completed; a person does not type on sooner
        person.say(f" {saved}")
        person.wait("saved to")
        person.ready()
        person.say("/stats")
        assert server.url in person.ready()
        person.say("/brio Is a fox a bird? yes | no")
        assert "entropy 0." in person.ready()
        person.say("/nonsense")
        assert "unknown command /nonsense" in person.ready()
        leave(person)
    question, answer = json.loads(saved.read_text())["messages"]
    assert question["content"] == "first line\nsecond line\n\tthird"
    assert answer["content"] == answer_of(llm, question["content"])
    with attached(server, *GREEDY, "--history", str(history)) as person:
        person.ready()
        person.type("\x1b[A" * 5)  # /nonsense, /brio, /stats, /save, the paste
        person.type("\r")
        shown = person.ready()
        assert f"\n{answer['content']}\n(stopped at the length limit" in shown, shown
        leave(person)


def test_ctrl_c_stops_an_answer_of_a_server_and_not_the_program(
    llm: LLM, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(llm, monkeypatch, 0.003)
    flags = ("--temperature", "0", "--max-tokens", "900", "--ignore-eos", "--history", "off")
    with attached(server, *flags) as person:
        _stop_an_answer(person)
        until = time.monotonic() + 20
        while llm.status().running:  # the server was told
            assert time.monotonic() < until
            time.sleep(0.01)
        _go_on_and_leave(person)


def test_ctrl_c_stops_an_answer_made_here_and_not_the_program() -> None:
    flags = ("--temperature", "0", "--max-tokens", "900", "--ignore-eos", "--history", "off")
    with terminal("chat", *MODEL, *flags, first=SLOW) as person:
        _stop_an_answer(person)
        _go_on_and_leave(person)


def _stop_an_answer(person: Terminal) -> None:
    person.ready()
    person.say(HELLO)
    person.wait(r"\? *\n.*?\w+ \w+ \w+")  # the answer has begun
    person.type("\x03")
    person.wait(r"\(stopped\)\n")
    person.ready()


def _go_on_and_leave(person: Terminal) -> None:
    """What was said stays in the conversation; twice Ctrl-C at an empty line leaves."""
    person.say("/set max_tokens 5")
    person.ready()
    person.say("And then?")
    person.ready()
    person.type("not sent\x03")  # clears the line
    person.ready()
    person.type("\x03")
    person.wait("Ctrl-C once more leaves")
    person.ready()
    person.type("\x03")
    assert person.end() == 0
    assert "Traceback" not in person.text


def test_ctrl_c_before_the_first_token_takes_the_question_back() -> None:
    """Of a server that says nothing yet; the connection is closed, so that it need not go on."""
    asked, go_on = threading.Event(), threading.Event()

    def answer() -> tuple[int, bytes]:
        asked.set()
        if not go_on.is_set():
            go_on.wait(30)
        return 200, event(content="Yes.") + event(finish_reason="stop") + b"data: [DONE]\n\n"

    with (
        other_server(answer) as url,
        terminal("chat", "--attach", url, "--history", "off") as person,
    ):
        person.ready()
        person.say("first")
        assert asked.wait(30)
        person.type("\x03")
        person.wait(r"\(stopped\)")
        go_on.set()
        person.ready()
        person.say("/save /dev/null/x")
        assert "there is no conversation yet" in person.ready()
        person.say("second")
        assert person.ready().endswith("\nYes.")
        leave(person)


def test_thinking_is_folded_and_told_on_demand() -> None:
    body = event(reasoning_content="A secret thought.") + event(content="An *answer*\n")
    body += event(finish_reason="stop") + b"data: [DONE]\n\n"
    with (
        other_server(lambda: (200, body)) as url,
        terminal("chat", "--attach", url, "--history", "off") as person,
    ):
        person.ready()
        person.say("why?")
        shown = person.ready()
        assert "secret" not in shown
        assert "(thought for" in shown
        assert "17 characters" in shown
        assert shown.endswith(")\nAn *answer*\n"), shown
        person.say("/thinking show")
        assert "A secret thought." in person.ready()
        person.say("again?")
        assert "A secret thought.\n\nAn *answer*" in person.ready()
        assert "\x1b[3m" in person.raw  # the emphasis is styled
        leave(person)


def test_a_model_does_not_steer_the_terminal() -> None:
    body = event(content="a\x1b[2Jb\x1b]0;title\x07c") + event(finish_reason="stop")
    body += b"data: [DONE]\n\n"
    with (
        other_server(lambda: (200, body)) as url,
        terminal("chat", "--attach", url, "--history", "off") as person,
    ):
        person.ready()
        person.say("x")
        assert person.ready().endswith(
            "\na\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}"
            "]0;title\N{REPLACEMENT CHARACTER}c"
        )
        assert "\x1b[2J" not in person.raw.split("x", 1)[1]
        leave(person)


def test_a_paste_is_text_and_stays_so_when_recalled(tmp_path: Path) -> None:
    body = event(content="Yes.") + event(finish_reason="stop") + b"data: [DONE]\n\n"
    saved = tmp_path / "talk.json"
    with (
        other_server(lambda: (200, body)) as url,
        terminal("chat", "--attach", url, "--history", "off") as person,
    ):
        person.ready()
        person.say("/stats")
        assert "no answer yet" in person.ready()
        person.paste("/etc/hosts\n// two lines")
        person.type("\r")
        assert person.ready().endswith("\nYes.")
        person.type("\x1b[A")
        person.wait("hosts")  # drawn, from the history
        person.type("\r")
        assert person.ready().endswith("\nYes.")
        person.paste("/not sent")
        person.wait("sent")
        person.type("\x10" * 3)  # past the message of two lines; the paste is another line
        person.wait("stat")  # the slash stood there already
        person.type("\r")
        assert url in person.ready()
        person.say(f"/save {saved}")
        person.wait("saved to")
        person.ready()
        leave(person)
    asked = [m["content"] for m in json.loads(saved.read_text())["messages"][::2]]
    assert asked == ["/etc/hosts\n// two lines"] * 2


PROSE = "Some words that a **narrow terminal** does not hold in one row.\n"
CODE = "```\nand code, which is not broken at words whatever its width may be\n```\n"


@pytest.mark.parametrize("flags", [(), ("--plain",)])
def test_an_answer_is_wrapped_at_words_and_as_wide_as_the_terminal_is_now(
    flags: tuple[str, ...],
) -> None:
    body = b"".join(event(content=char) for char in PROSE + CODE)
    body += event(finish_reason="stop") + b"data: [DONE]\n\n"
    with (
        other_server(lambda: (200, body)) as url,
        terminal("chat", "--attach", url, "--history", "off", *flags) as person,
    ):
        person.ready()
        person.say("wide")
        assert person.ready().endswith(PROSE + CODE)
        person.resize(24)
        time.sleep(0.3)  # the editor draws itself anew
        person.say("narrow")
        person.wait("Some")
        narrow = "Some words that a\n**narrow terminal** does\nnot hold in one row.\n"
        person.wait(re.escape((PROSE if flags else narrow)[4:] + CODE))


def test_a_terminal_without_escapes_gets_none(llm: LLM, server: Running) -> None:
    with attached(server, *GREEDY, "--history", "off", TERM="dumb") as person:
        person.ready()
        person.say(HELLO)
        assert person.ready().endswith(f"\n{answer_of(llm, HELLO)}")
        assert person.raw.replace("\r", "") == without_styles(person.raw)
        leave(person)
