"""`coli mirror`: second copies of a model's experts on another drive."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from colibri.cli import terminal
from colibri.cli.grouping import Commands
from colibri.cli.interrupt import Terminated, stop_on_interrupt
from colibri.cli.loading import show_warnings
from colibri.cli.mirroring import (
    Progress,
    coverage,
    heat,
    open_source,
    plan_facts,
    plan_lines,
    reader,
    say_verdict,
    take_others,
    warn,
    wishes,
)
from colibri.cli.options import setting_option
from colibri.cli.types import Directory
from colibri.errors import Cancelled

NOT_READY = 4
Command = TypeVar("Command", bound=Callable[..., Any])


@click.group("mirror", cls=Commands)
def command() -> None:
    """Second copies of a model's experts, on another drive.

    With `--mirror DIR` (run, chat, bench) experts are read from both drives at once.
    """


def _staging_options(command: Command) -> Command:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="The plan as JSON on stdout."),
        click.option(
            "--heat",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="The hot experts, as `coli usage export` writes them. [default: those remembered]",
        ),
        click.option(
            "--unit",
            type=click.Choice(["records", "shards"]),
            default="records",
            show_default=True,
            help="Copy the hottest experts, packed into files of their own, or whole files.",
        ),
        click.option(
            "--reserve",
            default="5%",
            show_default=True,
            metavar="SIZE",
            help="What to leave free on the drive: a size, or a share of the drive.",
        ),
        click.option(
            "--budget",
            metavar="SIZE",
            help="The most that the mirror may take; default: all but the reserve.",
        ),
        setting_option("model_dirs"),
        setting_option("model"),
        click.argument("directory", type=Directory()),
    ):
        command = option(command)
    return command


@command.command("plan")
@_staging_options
def plan_command(
    directory: Path, model: str | None, model_dirs: str | None, as_json: bool, **asked: Any
) -> None:
    """Say what `coli mirror stage` would copy to DIRECTORY. Writes nothing."""
    from colibri.planner.mirror.stage import plan_mirror

    show_warnings()
    source = open_source(model, model_dirs)
    warn(source.directory, directory)
    counts = heat(source, asked["heat"], model, model_dirs)
    plan = plan_mirror(source, directory, counts, wishes(directory, asked))
    if as_json:
        click.echo(json.dumps(plan_facts(plan), indent=1))
    else:
        for line in plan_lines(plan):
            click.echo(line)


@command.command("stage")
@_staging_options
@click.option("-q", "--quiet", is_flag=True, help="No progress, only warnings and errors.")
def stage_command(
    directory: Path,
    model: str | None,
    model_dirs: str | None,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Copy what the budget allows of a model to DIRECTORY, hottest first.

    Each file is read back before it counts. Ctrl-C stops; the same command goes on where it
    stopped. Nothing that is there already is overwritten or deleted. To have other experts in a
    mirror than it has, give a larger budget, or move its files away first.
    """
    from colibri.planner.mirror.stage import stage_mirror

    show_warnings()
    source = open_source(model, model_dirs)
    warn(source.directory, directory)
    counts = heat(source, asked["heat"], model, model_dirs)
    wanted = wishes(directory, asked)
    progress = Progress(quiet)
    with stop_on_interrupt() as stop:

        def step(nbytes: int) -> None:
            if stop.is_set():
                raise Cancelled("stopped; run the same command again to go on from here")
            progress.step(nbytes)

        try:
            plan = stage_mirror(source, directory, counts, wanted, progress.begin, step)
        except Terminated:
            raise
        except KeyboardInterrupt:
            raise Cancelled("stopped; run the same command again to go on from here") from None
        finally:
            progress.close()
    if as_json:
        click.echo(json.dumps(plan_facts(plan), indent=1))
    if not quiet:
        terminal.say(f"{directory}: {coverage(plan)}; ready, use it with --mirror {directory}")


@command.command("verify")
@click.argument("directory", type=Directory())
@click.option("-m", "--model", type=Directory(), metavar="DIR", help="Compare it with this.")
@setting_option("model_dirs")
@click.option("--json", "as_json", is_flag=True, help="The verdict as JSON on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def verify_command(
    directory: Path, model: Path | None, model_dirs: str | None, as_json: bool, quiet: bool
) -> int:
    """Read every byte of the mirror in DIRECTORY and say whether it is right.

    Held against the receipt that `coli mirror stage` left; without one DIRECTORY must be a copy of
    all of the model's expert files, and --model is needed. Exit code 0: ready; 4: not, each failure
    is named.
    """
    from colibri.planner.mirror.verify import verify_mirror

    progress = Progress(quiet)
    try:
        others = take_others(model_dirs)
        verdict = verify_mirror(directory, model, reader(others), progress.step, others)
    finally:
        progress.close()
    warnings = warn(model, directory) if model else []
    if as_json:
        facts = dataclasses.asdict(verdict) | {"ready": verdict.ready, "warnings": warnings}
        click.echo(json.dumps(facts, indent=1))
    else:
        say_verdict(directory, verdict)
    return 0 if verdict.ready else NOT_READY
