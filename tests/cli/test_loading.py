"""What is shown while a model loads: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

import golden
from cli.conftest import Coli, FakeLLM
from colibri.cli.progress import load_bar, load_line
from colibri.config import EngineConfig
from colibri.llm import LLM
from colibri.models.registry import SUPPORTED


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("family", SUPPORTED)
@pytest.mark.parametrize("form", ["source", "int4"])
def test_every_byte_of_the_trunk_is_told(model_of: Any, family: str, form: str) -> None:
    path = golden.tiny(family) if form == "source" else model_of(family, form)
    told: list[tuple[int, int]] = []
    config = EngineConfig(model=str(path), ram="1GB", context=64, usage="off")
    with LLM.from_config(config, text=False, on_load=lambda *of: told.append(of)) as llm:
        done, total = told[-1]
        assert done == total > 0
        assert [of for of, _ in told] == sorted(of for of, _ in told)
        count = len(told)
        llm.generate([5, 6], llm.default_params)
        assert len(told) == count  # what is read later is no loading


def test_the_line() -> None:
    assert load_line(0, 4_000_000_000, 0.0) == "loading [--------------------] 0 B of 4.00 GB"
    assert load_line(1_000_000_000, 4_000_000_000, 10.0) == (
        "loading [#####---------------] 1.00 GB of 4.00 GB, about 30.0 s left"
    )
    narrow = load_line(1_000_000_000, 4_000_000_000, 10.0, columns=50)
    assert narrow == "loading 1.00 GB of 4.00 GB, about 30.0 s left"


def test_a_terminal_has_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("colibri.cli.progress._REDRAW_SECONDS", 0.0)
    with load_bar(quiet=False) as on_load:
        assert on_load is not None
        on_load(1, 4)
        assert "loading [#####-" in sys.stderr.getvalue()
        on_load(4, 4)
        assert sys.stderr.getvalue().endswith("\r\x1b[K")


def test_nothing_in_a_pipe_with_quiet_or_on_a_dumb_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with load_bar(quiet=False) as on_load:
        assert on_load is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with load_bar(quiet=True) as on_load:
        assert on_load is None
    monkeypatch.setenv("TERM", "dumb")
    with load_bar(quiet=False) as on_load:
        assert on_load is None


@pytest.mark.parametrize("line", ["run hi", "run --ids 5", "score a b --question c"])
def test_commands_hand_it_on(
    coli: Coli, llm: FakeLLM, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    handed: list[Any] = []
    own = llm.from_config

    def from_config(config: EngineConfig, *, text: bool = True, on_load: Any = None) -> FakeLLM:
        handed.append(on_load)
        return own(config)

    monkeypatch.setattr(llm, "from_config", from_config)
    coli(*line.split())
    assert handed == [None]  # a pipe
