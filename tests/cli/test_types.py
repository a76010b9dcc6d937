from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from colibri.cli.app import cli
from colibri.cli.grouping import COMMANDS
from colibri.cli.types import Number


def every_option() -> Iterator[click.Parameter]:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield from command.params
        for sub in getattr(command, "commands", {}).values():
            yield from sub.params


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "NaN", "1e999", "x", "", "2.5", "-1"])
def test_what_is_no_number_within_bounds_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a number from 0 to 2"):
        Number(0, 2).convert(text, None, None)


def test_numbers() -> None:
    assert Number(0, 2).convert("2", None, None) == 2.0
    assert Number().convert("-1e300", None, None) == -1e300
    with pytest.raises(click.BadParameter, match="'nan' is not a finite number"):
        Number().convert("nan", None, None)


def test_no_option_takes_nan() -> None:
    """click's own floats do, and no comparison refuses it."""
    options = list(every_option())
    assert any(isinstance(option.type, Number) for option in options)
    kinds = (click.FLOAT.__class__, click.FloatRange)
    assert [option.name for option in options if isinstance(option.type, kinds)] == []
