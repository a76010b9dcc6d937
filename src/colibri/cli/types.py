"""Kinds of values that click does not have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click


class Directory(click.ParamType[Path]):
    """A directory as an argument. An empty name, of a variable that is not set, is not "here"."""

    name = "directory"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value):
            self.fail("the name is empty", param, ctx)
        return Path(value)


@dataclass
class Number(click.ParamType[float]):
    """A finite number within bounds. click's own floats take nan, which is within any bounds."""

    low: float = -math.inf
    high: float = math.inf

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or not self.low <= number <= self.high:
            self.fail(f"{str(value)[:40]!r} is not {self._form()}", param, ctx)
        return number

    def _form(self) -> str:
        bounded = math.isfinite(self.low) and math.isfinite(self.high)
        return f"a number from {self.low:g} to {self.high:g}" if bounded else "a finite number"
