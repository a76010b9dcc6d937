"""What a person types while a model is being loaded."""

from __future__ import annotations

import os
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.talk.pty_kit import Terminal, terminal

pytestmark = pytest.mark.timeout(90)

_LOADING = """
import atexit, os, sys, time
from colibri import llm
own = llm.LLM.from_config
def from_config(config, *, on_load=None, **more):
    on_load(1, 4)
    print("is loading", file=sys.stderr, flush=True)
    while not os.path.exists(os.environ["GO_ON"]):
        time.sleep(0.02)
    return own(config, on_load=on_load, **more)
llm.LLM.from_config = from_config
"""
_WAITS = "import atexit, sys; atexit.register(lambda: print('left:', sys.stdin.readline()))\n"


@contextmanager
def loading(tmp_path: Path, *flags: str, first: str = "") -> Iterator[tuple[Terminal, Path]]:
    """Somebody who waits for a model, and what lets the loading go on."""
    go_on = tmp_path / "go on"
    flags = (*flags, "--max-tokens", "1", "--ram", "2GB")
    with terminal(*flags, first=first + _LOADING, GO_ON=str(go_on)) as person:
        person.wait("is loading\n")
        yield person, go_on


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.5])
def test_a_ctrl_d_before_anything_else_leaves(seconds: float) -> None:
    """The terminal still reads by lines then."""
    with terminal("chat", "--history", "off", "--ram", "2GB") as person:
        time.sleep(seconds)
        person.type("\x04")
        assert person.end() == 0


def test_it_waits_for_the_first_prompt_of_a_chat(tmp_path: Path) -> None:
    with loading(tmp_path, "chat", "--history", "off") as (person, go_on):
        person.type("wrong\x7f\x7f\x7f\x7f\x7f/no \x1b[200~one\ntwo")
        time.sleep(0.3)  # so that it is typed before the load ends, whatever is done with it
        go_on.touch()
        assert "one" not in person.ready()
        person.type("\x1b[201~")
        person.wait("/no one\n.*two")
        person.type("\x03")
        person.ready()
        person.say("/quit")
        assert person.end() == 0
        assert "wrong" not in person.text
        assert "unknown command" not in person.text  # the lines pasted were no message
        assert person.mode_now() == person.mode


def test_a_chat_gives_the_mode_back_when_its_load_is_stopped(tmp_path: Path) -> None:
    with loading(tmp_path, "chat", "--history", "off") as (person, _):
        assert not person.mode_now()[1] & termios.ECHO
        person.type("some\x03")
        assert person.end() == 130
        assert "some" not in person.text
        assert person.mode_now() == person.mode


def test_a_run_leaves_it_to_the_shell(tmp_path: Path) -> None:
    with loading(tmp_path, "run", "--chat", "hi", first=_WAITS) as (person, go_on):
        person.type("ls\r")
        time.sleep(0.3)
        assert "ls" not in person.text
        go_on.touch()
        assert person.end() == 0
        assert "left: ls\n" in person.text
        assert person.mode_now() == person.mode


def test_a_run_that_is_suspended_gives_the_mode_back(tmp_path: Path) -> None:
    with loading(tmp_path, "run", "--chat", "hi") as (person, go_on):
        silent = person.mode_now()
        assert silent != person.mode
        person.process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(person.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert person.mode_now() == person.mode
        person.process.send_signal(signal.SIGCONT)
        until = time.monotonic() + 20
        while person.mode_now() != silent:
            assert time.monotonic() < until
            time.sleep(0.02)
        go_on.touch()
        assert person.end() == 0
        assert person.mode_now() == person.mode
