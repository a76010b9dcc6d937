"""`coli mirror`: second copies of a model's experts on another drive."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from colibri.cli import figures, terminal
from colibri.cli.interrupt import stop_on_interrupt
from colibri.cli.loading import show_warnings
from colibri.cli.options import setting_option, take_model
from colibri.cli.progress import ProgressLine
from colibri.errors import Cancelled

if TYPE_CHECKING:
    from colibri.container.mirror import Layers
    from colibri.planner.mirror.plan import Heat, MirrorPlan
    from colibri.planner.mirror.stage import Model, Wishes
    from colibri.planner.mirror.verdict import Verdict

NOT_READY = 4
Command = TypeVar("Command", bound=Callable[..., Any])


@click.group("mirror")
def command() -> None:
    """Second copies of a model's experts, on another drive.

    With `--mirror DIR` (run, chat, bench) experts are read from both drives at once.
    """


def _staging_options(command: Command) -> Command:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="The plan as JSON on stdout."),
        click.option(
            "--usage",
            type=click.Path(path_type=Path),
            help='Counts that tell what is hot, instead of the recorded ones: JSON, {"heat": '
            "{LAYER: [a number for each expert]}}.",
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
            help="What stays free on the drive; a share is one of the drive.",
        ),
        click.option(
            "--budget",
            metavar="SIZE",
            help="What the mirror may take in all; default: all but the reserve.",
        ),
        setting_option("model"),
        click.argument("directory", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


@command.command("plan")
@_staging_options
def plan_command(directory: Path, model: str | None, as_json: bool, **wishes: Any) -> None:
    """Say what `coli mirror stage` would copy to DIRECTORY. Writes nothing."""
    from colibri.planner.mirror.stage import plan_mirror

    show_warnings()
    source = _open(model)
    _warn(source.directory, directory)
    plan = plan_mirror(source, directory, _heat(source, wishes), _wishes(directory, wishes))
    if as_json:
        click.echo(json.dumps(_plan_facts(plan), indent=1))
    else:
        for line in _plan_lines(plan):
            click.echo(line)


@command.command("stage")
@_staging_options
@click.option("-q", "--quiet", is_flag=True, help="No progress, only warnings and errors.")
def stage_command(
    directory: Path, model: str | None, as_json: bool, quiet: bool, **wishes: Any
) -> None:
    """Copy what the budget allows of a model to DIRECTORY, hottest first.

    Each file is read back before it counts. Ctrl-C stops; the same command goes on where it
    stopped. Nothing that is there already is overwritten or deleted. To have other experts in a
    mirror than it has, give a larger budget, or move its files away first.
    """
    from colibri.planner.mirror.stage import stage_mirror

    show_warnings()
    source = _open(model)
    _warn(source.directory, directory)
    heat, wanted = _heat(source, wishes), _wishes(directory, wishes)
    progress = _Progress(quiet)
    with stop_on_interrupt() as stop:

        def step(nbytes: int) -> None:
            if stop.is_set():
                raise Cancelled("stopped; run the same command again to go on from here")
            progress.step(nbytes)

        try:
            plan = stage_mirror(source, directory, heat, wanted, progress.begin, step)
        except KeyboardInterrupt:
            raise Cancelled("stopped; run the same command again to go on from here") from None
        finally:
            progress.close()
    if as_json:
        click.echo(json.dumps(_plan_facts(plan), indent=1))
    if not quiet:
        terminal.say(f"{directory}: {_coverage(plan)}; ready, use it with --mirror {directory}")


@command.command("verify")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("-m", "--model", type=click.Path(path_type=Path), help="Also hold it against this.")
@click.option("--json", "as_json", is_flag=True, help="The verdict as JSON on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def verify_command(directory: Path, model: Path | None, as_json: bool, quiet: bool) -> int:
    """Read every byte of the mirror in DIRECTORY and say whether it is right.

    Held against the receipt that `coli mirror stage` left; without one DIRECTORY must be a copy of
    all of the model's expert files, and --model is needed. Exit code 0: ready; 4: not, each failure
    is named.
    """
    from colibri.planner.mirror.verify import verify_mirror

    progress = _Progress(quiet)
    try:
        verdict = verify_mirror(directory, model, _layers, progress.step)
    finally:
        progress.close()
    warnings = _warn(model, directory) if model else []
    if as_json:
        facts = dataclasses.asdict(verdict) | {"ready": verdict.ready, "warnings": warnings}
        click.echo(json.dumps(facts, indent=1))
    else:
        _say_verdict(directory, verdict)
    return 0 if verdict.ready else NOT_READY


class _Progress:
    def __init__(self, quiet: bool) -> None:
        self._line = None if quiet else ProgressLine()
        self._done = self._total = 0

    def begin(self, plan: MirrorPlan) -> None:
        self._total = plan.new_bytes

    def step(self, nbytes: int) -> None:
        self._done += nbytes
        if self._line is not None:
            self._line.update(self._text)

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    def _text(self) -> str:
        of = f" of {figures.size(self._total)}" if self._total else " read"
        return f"{figures.size(self._done)}{of}"


def _layers(path: Path) -> Layers:
    from colibri.cli.paths import read_config
    from colibri.container.mirror import main_layers
    from colibri.container.reader import open_container
    from colibri.models.registry import family_for

    return main_layers(open_container(path, family_for(read_config(path)).weights_of).layers)


def _open(model: str | None) -> Model:
    from colibri.cli.paths import model_path
    from colibri.container.manifest import read_manifest
    from colibri.container.mirror import model_identity
    from colibri.container.spec import MANIFEST_NAME
    from colibri.planner.mirror.stage import Model

    path = model_path(take_model(model))
    layers = _layers(path)
    converted = (path / MANIFEST_NAME).exists()
    sha256 = {f.name: f.sha256 for f in read_manifest(path).files} if converted else {}
    return Model(path, layers, model_identity(layers), sha256)


def _heat(source: Model, wishes: dict[str, Any]) -> Heat:
    from colibri.planner.mirror.heat import read_heat

    usage: Path | None = wishes["usage"]
    return read_heat(usage, source.layers) if usage is not None else {}


def _wishes(directory: Path, wishes: dict[str, Any]) -> Wishes:
    from colibri.config import parse_bytes
    from colibri.hardware.probe import disk_bytes
    from colibri.planner.mirror.stage import Wishes

    total = disk_bytes(directory)
    budget = wishes["budget"]
    reserve = wishes["reserve"]
    return Wishes(
        wishes["unit"],
        None if budget is None else parse_bytes(budget, total=total),
        0 if reserve == "0" else parse_bytes(reserve, total=total),
    )


def _warn(model: Path, directory: Path) -> list[str]:
    from colibri.planner.mirror.stage import warnings

    found = warnings(model, directory)
    for warning in found:
        terminal.say(f"coli: warning: {warning}")
    return found


def _plan_lines(plan: MirrorPlan) -> list[str]:
    lines = [f"{file.name:<40} {figures.size(file.size)}" for file in plan.files]
    if plan.present.nbytes:
        lines.append(f"{'there already':<40} {figures.size(plan.present.nbytes)}")
    return [*lines, _coverage(plan)]


def _coverage(plan: MirrorPlan) -> str:
    total = plan.new_bytes + plan.present.nbytes
    text = f"{figures.size(total)}, {plan.experts:,} of {plan.experts_total:,} experts"
    if plan.share is not None:
        text += f", {figures.share(plan.share, 1)} of what was asked for so far"
    return text


def _plan_facts(plan: MirrorPlan) -> dict[str, Any]:
    return {
        "unit": plan.unit,
        "files": [
            {"name": f.name, "kind": f.kind, "size": f.size, "experts": len(f.experts)}
            for f in plan.files
        ],
        "new_bytes": plan.new_bytes,
        "present_bytes": plan.present.nbytes,
        "experts": plan.experts,
        "experts_total": plan.experts_total,
        "share": plan.share,
    }


def _say_verdict(directory: Path, verdict: Verdict) -> None:
    for failure in verdict.failures:
        click.echo(f"{failure.file}: ({failure.kind}) {failure.detail}")
    how = "its receipt" if verdict.mode == "receipt" else "the whole model"
    said = "ready" if verdict.ready else figures.count(len(verdict.failures), "failure")
    read = f"{figures.count(verdict.files, 'file')}, {figures.size(verdict.nbytes)}"
    click.echo(f"{directory}: {read}, held against {how}: {said}")
