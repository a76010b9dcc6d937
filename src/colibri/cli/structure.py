"""The structure that an answer must have, from its flags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from colibri.cli import figures
from colibri.errors import ConfigError, GrammarError

if TYPE_CHECKING:
    from colibri.cli.generation import Answer
    from colibri.grammar import Structure

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path)
_FLAGS = ("json_schema", "grammar", "regex", "choice")


def structure_options(command: Command) -> Command:
    """One of them at most; `take_structure` has them checked."""
    for option in (
        click.option(
            "--choice", metavar="A,B", help="The answer is one of these, separated by commas."
        ),
        click.option("--regex", metavar="REGEX", help="The whole answer matches this."),
        click.option(
            "--grammar",
            type=_FILE,
            metavar="FILE",
            help="The answer follows this grammar: GBNF in *.gbnf, else Lark's notation.",
        ),
        click.option(
            "--json-schema",
            type=_FILE,
            metavar="FILE",
            help="The answer is JSON that this schema allows.",
        ),
    ):
        command = option(command)
    return command


def take_structure(flags: dict[str, Any]) -> Structure | None:
    """What was given of them, taken out of the mapping; refused before a model is loaded."""
    given = {name: value for name in _FLAGS if (value := flags.pop(name)) is not None}
    if not given:
        return None
    if len(given) > 1:
        names = " and ".join("--" + name.replace("_", "-") for name in given)
        raise ConfigError(f"{names} do not go together: an answer has one structure")
    from colibri.grammar import Structure

    match given:
        case {"json_schema": path}:
            return _schema(_text(path))
        case {"grammar": path}:
            return Structure("gbnf" if path.suffix == ".gbnf" else "lark", _text(path))
        case {"regex": pattern}:
            return Structure.regex(pattern)
    return Structure.choice([option.strip() for option in given["choice"].split(",")])


def is_beginning(answer: Answer, structure: Structure | None) -> bool:
    """Whether an answer that was to have a form was cut off, and so is only a beginning of it."""
    return structure is not None and answer.finish_reason == "length"


def cut_off(answer: Answer) -> str:
    return (
        f"the answer was cut off after {figures.count(len(answer.token_ids), 'token')} "
        "(finish_reason length): it is only the beginning of what its structure asks for; "
        "--max-tokens and --context say how long it may be"
    )


def _schema(text: str) -> Structure:
    from colibri.grammar.schema import read_schema
    from colibri.grammar.structure import Structure

    structure = Structure.json_schema(text)
    read_schema(structure.source)
    return structure


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise GrammarError(f"{path}: not UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
