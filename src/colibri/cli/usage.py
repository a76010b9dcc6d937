"""`coli usage`: which experts a model used, as remembered between runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from colibri.cli import figures, terminal
from colibri.cli.grouping import Commands
from colibri.cli.options import setting_option, take_some
from colibri.cli.types import ModelName
from colibri.errors import ConfigError

if TYPE_CHECKING:
    from colibri.experts.usage.file import Found, UsageFile

Command = TypeVar("Command", bound=Callable[..., Any])

EXPORT_VERSION = 1
PARTS = (0.10, 0.25, 0.50)
_HOTTEST = 6


@click.group("usage", cls=Commands)
def command() -> None:
    """Show, export or reset which experts a model used.

    Counts are kept beside the model and decide which experts are pinned in memory. What they mean
    is explained in docs/usage.md.
    """


def _of_a_model(function: Command) -> Command:
    for decorate in (
        setting_option("usage"),
        setting_option("model_dirs"),
        setting_option("model"),
        click.argument("directory", type=ModelName(), required=False),
    ):
        function = decorate(function)
    return function


@command.command()
@_of_a_model
def show(directory: str | None, **given: str | None) -> None:
    """How much is known, how unevenly experts are used, and the hottest ones of each layer."""
    file = _file(directory, given)
    for line in _description(file, _read(file)):
        click.echo(line)


@command.command()
@_of_a_model
def reset(directory: str | None, **given: str | None) -> None:
    """Start counting anew. What was counted is kept in a file of another name."""
    file = _file(directory, given)
    kept = file.reset() if file.path.exists() else None
    click.echo(f"kept as {kept}" if kept else f"nothing to reset: there is no {file.path}")


@command.command()
@_of_a_model
@click.option("--format", "form", type=click.Choice(["json", "csv"]), default="json")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Instead of stdout."
)
def export(directory: str | None, form: str, output: Path | None, **given: str | None) -> None:
    """Write the heat of every expert as JSON or CSV, for other programs."""
    file = _file(directory, given)
    found = _read(file)
    text = _as_json(file, found) if form == "json" else _as_csv(found)
    if output is None:
        click.echo(text, nl=False)
    else:
        from colibri.container.output import check_writable, write_text

        check_writable("--output", output)
        write_text(output, text)


def _file(directory: str | None, given: dict[str, str | None]) -> UsageFile:
    import os

    from colibri.cli.paths import model_path
    from colibri.experts.usage.log import usage_file
    from colibri.runtime import open_model

    config = take_some(**given | {"model": directory or given["model"]})
    container = open_model(model_path(config.model), config)
    file = usage_file(config, container, os.environ)
    if file is None:
        raise ConfigError("usage is off, or there is no place for it: give --usage auto or a file")
    return file


def _read(file: UsageFile) -> Found:
    found = file.read()
    for problem in found.problems:
        terminal.say(f"coli: warning: {file.path}: {problem}: refused")
    return found


def _description(file: UsageFile, found: Found) -> Iterator[str]:
    from colibri.experts.usage import facts
    from colibri.experts.usage.pins import ENOUGH_SELECTIONS, enough

    counts, subject = found.counts, file.subject
    yield f"{'usage':<11}{file.path}"
    yield f"{'model':<11}{subject.name} ({subject.fingerprint})"
    if not counts.total_selections:
        yield f"{'counted':<11}nothing yet"
        return
    yield f"{'counted':<11}{_counted(file, found)}"
    experts = sum(subject.experts.values())
    told = "says which experts to pin" if enough(counts) else "is not enough to pin by"
    yield f"{'':<11}that {told} (from {ENOUGH_SELECTIONS * experts:,} selections on)"
    shares = (facts.share_over_layers(counts.heat, part) for part in PARTS)
    yield f"{'hottest':<11}" + ", ".join(
        f"{part:.0%} of the experts: {figures.share(share, 1)}"
        for part, share in zip(PARTS, shares, strict=True)
    )
    yield ""
    yield f"{'layer':>5}{'selections':>13}" + "".join(f"{f'top {p:.0%}':>9}" for p in PARTS)
    for layer, heat in counts.heat.items():
        shares = (facts.share_of_hottest(heat, part) for part in PARTS)
        hot = (f"{e} {figures.share(s, 1)}" for e, s in facts.hottest(heat, _HOTTEST))
        numbers = "".join(f"{figures.share(share, 1):>9}" for share in shares)
        yield f"{layer:>5}{counts.selections[layer]:>13,}{numbers}   {', '.join(hot)}"


def _counted(file: UsageFile, found: Found) -> str:
    counts = found.counts
    text = f"{figures.count(counts.tokens, 'token')}, {counts.total_selections:,} selections"
    if found.head is None:
        return text
    age = max(0.0, time.time() - found.head.saved_unix)
    return (
        f"{text}; each counts half after {figures.count(found.head.half_life_tokens, 'token')}; "
        f"saved {figures.duration(age)} ago"
    )


def _as_json(file: UsageFile, found: Found) -> str:
    import json

    counts, subject = found.counts, file.subject
    head = found.head
    facts = {
        "version": EXPORT_VERSION,
        "model": subject.name,
        "fingerprint": subject.fingerprint,
        "tokens": counts.tokens,
        "half_life_tokens": None if head is None else head.half_life_tokens,
        "saved_unix": None if head is None else head.saved_unix,
        "selections": dict(counts.selections),
        "heat": {layer: heat.tolist() for layer, heat in counts.heat.items()},
    }
    return json.dumps(facts, indent=1) + "\n"


def _as_csv(found: Found) -> str:
    from colibri.experts.usage import facts

    rows = facts.rows(found.counts)
    lines = (f"{layer},{expert},{heat:.4f},{share:.6f}\n" for layer, expert, heat, share in rows)
    return "layer,expert,heat,share\n" + "".join(lines)
