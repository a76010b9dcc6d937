"""`coli` as a process of its own, with the embedded model: signals, pipes, locales, terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from server_kit import serving

from colibri.llm import LLM, embedded_model
from colibri.sampling import SamplingParams
from golden import tiny

COLI = [sys.executable, "-c", "from colibri.cli import main; main()"]
LONG = ["--ignore-eos", "--max-tokens", "1900", "--seed", "1"]


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COLI, *arguments], **(pipes | options))


def finish(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err.decode()


def test_embedded_model_answers_and_tells_what_happened() -> None:
    code, out, err = finish(
        start("run", "-v", "--chat", "--temperature", "0", "Hello! Who are you?")
    )
    assert code == 0
    assert b"Colibri" in out
    for fact in ("tok/s", "first token after", "hits", "read", "resident", "of a budget of"):
        assert fact in err


def test_interrupt_while_decoding() -> None:
    process = start("run", *LONG, "Once upon a time")
    assert process.stdout is not None
    first = os.read(process.stdout.fileno(), 1)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert time.monotonic() - begin < 5
    assert code == 130
    assert (first + out).endswith(b"\n")
    assert "ended by interruption" in err
    assert "Traceback" not in err


def test_interrupt_while_the_prompt_is_read() -> None:
    prompt = "word " * 1500
    process = start("run", "--cache-experts", "1", "--prefill-chunk", "1", prompt)
    assert process.stderr is not None
    assert any(b"(loaded in " in line for line in iter(process.stderr.readline, b""))
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (130, b"")
    assert "Traceback" not in err


def test_broken_pipe_is_quiet() -> None:
    with start("run", "-q", *LONG, "Once upon a time") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("run", "-q", "Once"), ("info",), ("--help",)])
def test_full_disk_is_said(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        code, _, err = finish(start(*arguments, stdout=full))
    assert code == 1
    assert err == "coli: error: No space left on device: standard output\n"


def test_closed_streams_are_no_crash() -> None:
    command = '"$0" -c "from colibri.cli import main; main()" run -q --max-tokens 3 Once >&- 2>&-'
    assert subprocess.run(["sh", "-c", command, sys.executable], timeout=60).returncode == 0


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}],
)
def test_any_locale(environment: dict[str, str]) -> None:
    arguments = ("run", "-q", "--max-tokens", "8", "床前明月光")
    code, out, err = finish(start(*arguments, env=os.environ | environment))
    assert (code, err) == (0, "")
    assert out.strip()


def test_errors_have_no_traceback_unless_asked_for() -> None:
    code, _, err = finish(start("run", "--model", "/nonexistent/model", "x"))
    assert (code, err) == (4, "coli: error: /nonexistent/model: no such directory\n")
    debug = os.environ | {"COLI_DEBUG": "1"}
    assert "Traceback" in finish(start("run", "--model", "/nonexistent/model", "x", env=debug))[2]


READY = "\x1b[?25l\x1b[0m"  # the input line draws itself anew


class Terminal:
    """A person at a terminal, as far as the program can tell."""

    def __init__(self, *arguments: str, term: str = "xterm") -> None:
        self._master, slave = pty.openpty()
        streams = {"stdin": slave, "stdout": slave, "stderr": slave}
        environment = os.environ | {"TERM": term, "PROMPT_TOOLKIT_NO_CPR": "1"}
        self.process = start(*arguments, **streams, env=environment, start_new_session=True)
        os.close(slave)
        self.seen = self.all = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Text that comes after all that was waited for before."""
        end = time.monotonic() + 30
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self._master], [], [], 0.2)[0]:
                news = os.read(self._master, 65536).decode(errors="replace")
                self.seen += news
                self.all += news
        self.seen = self.seen.partition(text)[2]

    def close(self) -> int:
        code = self.process.wait(30)
        os.close(self._master)
        return code


def styleless(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")


def test_chat_in_a_terminal(tmp_path: Path) -> None:
    kept = tmp_path / "history"
    terminal = Terminal("chat", "--temperature", "0", "--history", str(kept), *LONG)
    terminal.wait_for("Ctrl-D leaves")
    terminal.wait_for(READY)
    terminal.type("\x1b[200~Hello!\nWho are you?\x1b[201~\r")  # a paste of two lines
    terminal.wait_for("Colibri")  # the beginning of a long answer
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for("(stopped)")
    terminal.wait_for(READY)
    terminal.type("/sta\t")  # completed
    terminal.wait_for("ts")
    terminal.type("\r")
    terminal.wait_for("ended by interruption")
    terminal.wait_for(READY)
    terminal.type("/frob\r")
    terminal.wait_for("unknown command /frob")
    terminal.wait_for(READY)
    terminal.type("typed\x03")  # clears the line
    terminal.wait_for(READY)
    terminal.type("\x03")
    terminal.wait_for("once more leaves")
    terminal.wait_for(READY)
    terminal.type("\x03")
    assert terminal.close() == 0
    assert "+Hello!\n+Who are you?\n" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_chat_in_a_terminal_attached_shows_the_text_of_the_api() -> None:
    """B097."""
    ask, greedy = "Hello! Who are you?", {"temperature": 0.0, "max_tokens": 20}
    with LLM(ram="2GB", context=512) as llm, serving(llm) as running:
        text = llm.chat([{"role": "user", "content": ask}], SamplingParams(**greedy)).text
        flags = ("--temperature", "0", "--max-tokens", "20", "--history", "off")
        terminal = Terminal("chat", "--attach", running.url, *flags)
        terminal.wait_for(running.url)  # what it is attached to
        terminal.wait_for(READY)
        terminal.type(f"{ask}\r")
        terminal.wait_for("\x1b[?2004l")  # the line was taken
        begun = len(terminal.all) - len(terminal.seen)
        terminal.wait_for(READY)
        assert f"{text}\n" in styleless(terminal.all[begun:])
        terminal.type("/brio Are you a bird? yes | no\r")
        terminal.wait_for("entropy 0.")
        terminal.wait_for(READY)
        terminal.type("\x04")
        assert terminal.close() == 0


def test_chat_in_a_dumb_terminal_has_no_escapes() -> None:
    terminal = Terminal("chat", "--temperature", "0", "--history", "off", term="dumb")
    terminal.wait_for("Ctrl-D leaves")
    terminal.wait_for("> ")
    terminal.type("Hello! Who are you?\r")
    terminal.wait_for("Colibri")
    terminal.wait_for("> ")
    terminal.type("/quit\r")
    assert terminal.close() == 0
    assert "\x1b[" not in terminal.all


def test_conversion_in_a_terminal(tmp_path: Path) -> None:
    refused = Terminal("convert", "/nonexistent/model", str(tmp_path / "none"))
    refused.wait_for("no such directory")
    assert refused.close() == 4
    assert refused.all.startswith("coli: error")  # and no bar before it
    terminal = Terminal("convert", str(tiny("olmoe")), str(tmp_path / "out"))
    terminal.wait_for("━" * 18)
    terminal.wait_for("ready")
    assert terminal.close() == 0


def test_text_of_arguments_in_a_locale_without_it() -> None:
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    flags = ["--seed", "1", "--max-tokens", "20", "--ignore-eos", "-q"]
    bias = ["--logit-bias", f"{token_of('é')}=100"]
    process = start("run", "Once", *flags, *bias, "--stop", "é", env=os.environ | plain)
    code, out, err = finish(process)
    assert (code, out.strip(), err) == (0, b"", "")


def test_standard_streams_that_do_not_block() -> None:
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    process = start("run", "-q", "--max-tokens", "3", stdin=ends[0])
    time.sleep(0.5)
    os.write(ends[1], b"Once")
    os.close(ends[1])
    code, out, err = finish(process)
    os.close(ends[0])
    assert (code, err) == (0, "")
    assert out


def token_of(text: str) -> int:
    from colibri.llm import embedded_model
    from colibri.text.tokenizer import Tokenizer

    (token,) = Tokenizer.load(embedded_model()).encode(text, add_special_tokens=False)
    return token


def test_a_name_that_is_no_text_does_not_matter(tmp_path: Path) -> None:
    """File names are bytes; JSON, traces and receipts are text."""
    model = tmp_path / os.fsdecode(b"bad\xff\xfe")
    shutil.copytree(embedded_model(), model)
    mirror = f"{model}-mirror"
    for arguments in (
        ["doctor", model, "--json"],
        ["plan", model, "--json", "--disk", "1GB/s", "--memory", "9GB/s"],
        ["run", "-m", model, "--max-tokens", "2", "--trace", f"{model}/t", "-q", "Once"],
        ["replay", f"{model}/t", "--json", f"{model}/r"],
        ["mirror", "stage", mirror, "-m", model, "-q"],
        ["mirror", "verify", mirror, "--json"],
    ):
        code, _, err = finish(start(*map(str, arguments)))
        assert code == 0, err
        assert "not saved" not in err


def test_an_empty_name_is_no_directory_to_write_to(tmp_path: Path) -> None:
    code, _, err = finish(start("mirror", "stage", "", cwd=tmp_path))
    assert code == 2
    assert "the name is empty" in err
    assert os.listdir(tmp_path) == []


def test_sigterm_ends_a_run() -> None:
    process = start("run", *LONG, "Once upon a time")
    assert process.stdout is not None
    first = os.read(process.stdout.fileno(), 1)
    process.send_signal(signal.SIGTERM)
    code, out, err = finish(process)
    assert code == 143  # an exit of its own: the kernel keeps an unhandled SIGTERM from PID 1
    assert (first + out).endswith(b"\n")
    assert "ended by SIGTERM" in err
    assert "Traceback" not in err


def test_sigterm_ends_a_chat_that_waits_for_a_message() -> None:
    process = start("chat", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"hi\n")
    process.stdin.flush()
    os.read(process.stdout.fileno(), 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    process.communicate()


def test_a_sigterm_that_is_ignored_stays_so() -> None:
    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    told = "import os; from colibri.cli.interrupt import end_on_sigterm; end_on_sigterm(); "
    killed = "os.kill(os.getpid(), signal.SIGTERM); print('alive')"
    done = subprocess.run([sys.executable, "-c", ignoring + told + killed], capture_output=True)
    assert done.stdout == b"alive\n"
