"""Counts with their nouns, in what every command says."""

from __future__ import annotations

import re

import pytest

from cli.conftest import Coli
from colibri.cli.progress import prefill_line
from colibri.engine.request import PrefillProgress
from colibri.words import are, count, count_are

NOUNS = "threads|tokens|files|layers|experts|tensors|entries|slots|runs|records|topics"
WRONG = re.compile(rf"(?<![\d.,])1 ({NOUNS})\b")  # not in 0.1, nor in 10,001


def test_count() -> None:
    assert count(0, "token") == "0 tokens"
    assert count(1, "token") == "1 token"
    assert count(1234, "token") == "1,234 tokens"
    assert count(1, "entry", "entries") == "1 entry"
    assert count(2, "entry", "entries") == "2 entries"
    assert count_are(1, "layer") == "1 layer is"
    assert count_are(2, "layer") == "2 layers are"
    assert count_are(2, "matrix", "matrices") == "2 matrices are"
    assert (are(1), are(2)) == ("is", "are")


@pytest.mark.parametrize(
    "line",
    [
        "run -v --chat --threads 1 --max-tokens 1 --prefill-chunk 1 --experts-per-token 1 hi",
        "run -v --ids --threads 1 --max-tokens 1 --context 2 5",
        "plan --threads 1 --prefill-chunk 1 --context 1",
        "doctor --threads 1",
        "bench --threads 1 --prompt-tokens 1 --new-tokens 2 --repeat 1",
        "score yes no --question hi --threads 1",
        "info",
    ],
)
def test_one_of_a_thing_is_singular(coli: Coli, line: str) -> None:
    shown = coli(*line.split())
    assert shown.code == 0, shown.err
    text = shown.out + shown.err
    assert text
    assert WRONG.findall(text) == []


def test_a_prompt_of_one_token() -> None:
    assert "prompt 0/1 token," in prefill_line(PrefillProgress(0, 1, 1, 4, 0, 0.5, None))
