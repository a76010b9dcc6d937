"""What a person types while an answer is being written, and how the terminal is left."""

from __future__ import annotations

import os
import signal
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from cli.talk.pty_kit import Terminal, terminal
from cli.talk.test_attached import event, other_server

pytestmark = pytest.mark.timeout(90)


@dataclass
class Slow:
    """A server whose answers begin when the test says so."""

    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go_on: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def answer(self) -> tuple[int, bytes]:
        self.asked.release()
        self.go_on.acquire(timeout=30)
        text = event(content="The answer.") + event(finish_reason="stop")
        return 200, text + b"data: [DONE]\n\n"


@contextmanager
def asking() -> Iterator[tuple[Terminal, Slow]]:
    """Somebody who has asked and waits."""
    slow = Slow()
    with (
        other_server(slow.answer) as url,
        terminal("chat", "--attach", url, "--history", "off") as person,
    ):
        person.ready()
        person.say("first")
        assert slow.asked.acquire(timeout=30)
        try:
            yield person, slow
        finally:
            slow.go_on.release(20)


def meanwhile(person: Terminal, slow: Slow, keys: str) -> str:
    """What is on the screen when the editor is there again."""
    person.type(keys)
    time.sleep(0.3)  # so that it is typed before the answer comes, whatever is done with it
    slow.go_on.release()
    return person.ready()


def test_what_is_typed_waits_below_the_answer_and_is_not_sent() -> None:
    with asking() as (person, slow):
        shown = meanwhile(person, slow, "wrong\x7f\x7f\x7f\x7f\x7fnext one")
        assert shown.endswith("\nThe answer."), shown
        person.wait("next one")
        assert not slow.asked.acquire(timeout=0.3)
        slow.go_on.release()
        person.say("?")
        person.ready()
        person.say("/regenerate")
        assert slow.asked.acquire(timeout=30)


def test_lines_pasted_are_one_message_and_none_is_sent() -> None:
    with asking() as (person, slow):
        pasted = "\x1b[200~/one\n// two\r\nthree\x1b[201~"
        assert meanwhile(person, slow, pasted).endswith("\nThe answer.")
        person.wait("three")
        assert not slow.asked.acquire(timeout=0.3)
        slow.go_on.release()
        person.type("\r")
        assert person.ready().endswith("\nThe answer.")
        person.type("\x1b[A")
        person.wait(r"//one\n.*// two\n.*three")


def test_a_paste_that_comes_while_the_answer_ends_is_one_piece() -> None:
    with asking() as (person, slow):
        meanwhile(person, slow, "\x1b[200~one\ntw")
        person.type("o\nthree\x1b[201~")
        person.wait("three")
        assert not slow.asked.acquire(timeout=0.3)


def test_a_line_that_was_sent_is_asked_afterwards() -> None:
    with asking() as (person, slow):
        assert meanwhile(person, slow, "second\rthird").endswith("\nThe answer.")
        assert slow.asked.acquire(timeout=30)
        slow.go_on.release()
        assert person.ready().endswith("> second\nThe answer.")
        person.wait("third")
        assert not slow.asked.acquire(timeout=0.3)


def test_ctrl_c_stops_the_answer_whatever_was_typed_or_pasted_before() -> None:
    with asking() as (person, _):
        person.paste("many words " * 2000)  # more than a terminal holds for a program
        person.type("kept\x03")
        person.wait(r"\(stopped\)")
        person.ready()
        person.wait("kept")


def test_the_mode_is_given_back_at_the_end() -> None:
    with asking() as (person, slow):
        assert not person.mode_now()[1] & (termios.ECHO | termios.ICANON)
        meanwhile(person, slow, "/quit\r")
        assert person.end() == 0
        assert person.mode_now() == person.mode
        assert person.raw.endswith("\x1b[?2004l")


@pytest.mark.parametrize("answering", [True, False])
def test_the_mode_is_given_back_after_sigterm(answering: bool) -> None:
    with asking() as (person, slow):
        if not answering:
            meanwhile(person, slow, "")
        person.process.send_signal(signal.SIGTERM)
        assert person.end() == 143
        assert person.mode_now() == person.mode
        assert "Traceback" not in person.text


def test_the_mode_is_given_back_after_an_error_of_the_program() -> None:
    broken = """
from colibri.cli.talk import loop
def attempt(message, conversation):
    raise RuntimeError("broken")
loop.attempt = attempt
"""
    with (
        other_server(Slow().answer) as url,
        terminal("chat", "--attach", url, "--history", "off", first=broken) as person,
    ):
        person.ready()
        person.say("x")
        assert person.end() == 1
        assert person.mode_now() == person.mode


def test_ctrl_z_gives_the_mode_back_and_fg_takes_it_again() -> None:
    with asking() as (person, slow):
        silent = person.mode_now()
        person.process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(person.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert person.mode_now() == person.mode
        person.process.send_signal(signal.SIGCONT)
        until = time.monotonic() + 20
        while person.mode_now() != silent:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert meanwhile(person, slow, "kept").endswith("\nThe answer.")
        person.wait("kept")
        person.type("\x15/regenerate\r")
        assert slow.asked.acquire(timeout=30)
        assert person.mode_now() == silent
