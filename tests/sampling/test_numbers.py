"""The table of numbers, and those who cannot read it: a dataclass and the page's script."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import colibri
from colibri import SamplingParams
from colibri.config.sampling import NUMBER_BY_NAME, NUMBERS

_PAGE = Path(colibri.__file__).parent / "web/static/pages/chat/sampling.js"
_ROW = re.compile(r'name: "(\w+)",\s+label: "[^"]+",\s+min: ([\d.]+),\s+max: ([^,]+),')


def test_every_number_of_the_parameters_is_in_the_table() -> None:
    defaults = SamplingParams()
    for field in dataclasses.fields(SamplingParams):
        value = getattr(defaults, field.name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number or field.name in ("seed", "logprobs", "prompt_logprobs"):
            assert NUMBER_BY_NAME[field.name].allows(value)
        else:
            assert field.name not in NUMBER_BY_NAME
    assert len(NUMBER_BY_NAME) == len(NUMBERS)


def test_the_page_has_the_same_bounds() -> None:
    rows = _ROW.findall(_PAGE.read_text("utf-8"))
    assert {name for name, _, _ in rows} >= {"temperature", "top_p", "top_k", "min_p", "seed"}
    for name, low, high in rows:
        number = NUMBER_BY_NAME[name]
        most = eval(high)  # 2 ** 31 - 1
        # A script's whole numbers end at 2^53, and an answer of the page has at least a token.
        assert most == min(number.high, 2**53 - 1), name
        assert float(low) == (1 if name == "max_tokens" else number.low), name
