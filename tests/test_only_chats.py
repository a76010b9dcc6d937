"""The embedded model cannot go on with a text, and says so once."""

import logging
from pathlib import Path

import pytest

import golden
from colibri.cli import app
from colibri.llm import LLM, embedded_model
from colibri.llm.files import only_chats
from colibri.sampling import SamplingParams

ONE = SamplingParams(max_tokens=1)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "was made for chat" in r.getMessage()]


@pytest.fixture
def logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """Whatever a command in this process made of the loggers before."""
    monkeypatch.setattr(logging.getLogger("colibri"), "propagate", True)
    logging.getLogger("colibri.prompts").setLevel(logging.NOTSET)
    return caplog


def test_it_is_said_once(logged: pytest.LogCaptureFixture) -> None:
    with LLM() as llm:
        llm.generate("Once upon a time", ONE)
        list(llm.stream("Once more", ONE))
    (said,) = warnings(logged)
    assert "--chat" in said
    assert "chat()" in said


def test_not_of_chats_ids_or_turns_written_out(logged: pytest.LogCaptureFixture) -> None:
    with LLM() as llm:
        hello = [{"role": "user", "content": "Hello"}]
        llm.chat(hello, ONE)
        llm.generate(llm.render(hello), ONE)
        llm.generate("<|user|>Hello<|assistant|>", ONE)
    assert warnings(logged) == []


def test_not_of_other_models(tmp_path: Path) -> None:
    assert only_chats(embedded_model())
    link = tmp_path / "link"
    link.symlink_to(embedded_model())
    assert only_chats(link)
    assert not only_chats(golden.tiny("olmoe"))
    assert not only_chats(tmp_path)


@pytest.mark.parametrize(
    ("flags", "lines"), [([], 1), (["-q"], 0), (["--chat"], 0), (["-q", "--chat"], 0)]
)
def test_run_says_it_in_one_line(
    capsys: pytest.CaptureFixture[str], flags: list[str], lines: int
) -> None:
    assert app.run(["run", "--max-tokens", "1", *flags, "Once upon a time"]) == 0
    err = capsys.readouterr().err
    assert sum("this model was made for chat" in line for line in err.splitlines()) == lines
    assert "-q" not in flags or err == ""
