"""The bounds of the chat page's numbers are those of the API and of SamplingParams."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import colibri
from colibri.errors import ConfigError
from colibri.sampling import SamplingParams
from colibri.server.structs.base import Sampling

SOURCE = Path(colibri.__file__).parent / "web" / "static" / "pages" / "chat" / "sampling.js"
ROW = re.compile(r'name: "(\w+)".*?min: ([^,]+),\s*max: ([^,]+),\s*step: ([^,]+),', re.S)


def number(text: str) -> float:
    """0.01, or 2 ** 31 - 1."""
    power = re.fullmatch(r"2 \*\* (\d+) - 1", text)
    return 2 ** int(power[1]) - 1 if power else float(text)


BOUNDS = {
    name: (number(low), number(high), number(step))
    for name, low, high, step in ROW.findall(SOURCE.read_text(encoding="utf-8"))
}


def test_all_numbers_are_found() -> None:
    assert BOUNDS.keys() == {
        *("temperature", "top_p", "top_k", "min_p"),
        *("repetition_penalty", "max_tokens", "seed"),
    }


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "min_p", "repetition_penalty"])
def test_what_the_page_takes_all_take_and_nothing_else(name: str) -> None:
    low, high, step = BOUNDS[name]
    kind: Any = int if step == 1 else float
    for value in (kind(low), kind(high)):
        SamplingParams(**{name: value})
        msgspec.convert({name: value}, Sampling)
    for value in (kind(low - step), kind(high + step)):
        with pytest.raises(ConfigError, match=name):
            SamplingParams(**{name: value})
        with pytest.raises(msgspec.ValidationError, match=name):
            msgspec.convert({name: value}, Sampling)
