"""What `coli mirror` takes and tells, for all of its commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import figures, terminal
from colibri.cli.options import take, take_model
from colibri.cli.progress import ProgressLine

if TYPE_CHECKING:
    from colibri.container.mirror import Layers
    from colibri.planner.mirror.plan import Heat, MirrorPlan
    from colibri.planner.mirror.stage import Model, Wishes
    from colibri.planner.mirror.verdict import Verdict


class Progress:
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


def take_others(model_dirs: str | None) -> list[Path]:
    return [Path(name) for name in take(model_dirs=model_dirs).model_dirs]


def reader(others: Sequence[Path]) -> Callable[[Path], Layers]:
    """Reads a model whose files may lie in other directories too."""
    from colibri.cli.paths import read_config
    from colibri.container.layerexperts import main_layers
    from colibri.container.reader import open_container
    from colibri.models.registry import family_for

    def read(path: Path) -> Layers:
        weights_of = family_for(read_config(path)).weights_of
        return main_layers(open_container(path, weights_of, others=others).layers)

    return read


def open_source(model: str | None, model_dirs: str | None) -> Model:
    from colibri.cli.paths import model_path
    from colibri.container.manifest import read_manifest
    from colibri.container.mirror import model_identity
    from colibri.container.spec import MANIFEST_NAME
    from colibri.planner.mirror.stage import Model

    path = model_path(take_model(model))
    layers = reader(take_others(model_dirs))(path)
    converted = (path / MANIFEST_NAME).exists()
    sha256 = {f.name: f.sha256 for f in read_manifest(path).files} if converted else {}
    return Model(path, layers, model_identity(layers), sha256)


def heat(source: Model, named: Path | None, model: str | None, model_dirs: str | None) -> Heat:
    """From the file named, else what is remembered of the model's use."""
    from colibri.planner.mirror.heat import read_heat
    from colibri.planner.usage import recorded_popularity
    from colibri.runtime import open_model

    if named is not None:
        return read_heat(named, source.layers)
    config = take(model=model, model_dirs=model_dirs)
    recorded = recorded_popularity(config, open_model(source.directory, config)) or {}
    return {
        (layer, expert): count
        for layer, counts in recorded.items()
        for expert, count in enumerate(counts)
    }


def wishes(directory: Path, asked: dict[str, Any]) -> Wishes:
    from colibri.config.sizes import parse_flag
    from colibri.hardware.probe import disk_bytes
    from colibri.planner.mirror.stage import Wishes

    total = disk_bytes(directory)
    budget = asked["budget"]
    reserve = asked["reserve"]
    return Wishes(
        asked["unit"],
        None if budget is None else parse_flag("--budget", budget, total=total),
        0 if reserve == "0" else parse_flag("--reserve", reserve, total=total),
    )


def warn(model: Path, directory: Path) -> list[str]:
    from colibri.planner.mirror.stage import warnings

    found = warnings(model, directory)
    for warning in found:
        terminal.say(f"coli: warning: {warning}")
    return found


def plan_lines(plan: MirrorPlan) -> list[str]:
    lines = [f"{file.name:<40} {figures.size(file.size)}" for file in plan.files]
    if plan.present.nbytes:
        lines.append(f"{'there already':<40} {figures.size(plan.present.nbytes)}")
    return [*lines, coverage(plan)]


def coverage(plan: MirrorPlan) -> str:
    total = plan.new_bytes + plan.present.nbytes
    text = f"{figures.size(total)}, {plan.experts:,} of {plan.experts_total:,} experts"
    if plan.share is not None:
        text += f", {figures.share(plan.share, 1)} of what was asked for so far"
    return text


def plan_facts(plan: MirrorPlan) -> dict[str, Any]:
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


def say_verdict(directory: Path, verdict: Verdict) -> None:
    for failure in verdict.failures:
        click.echo(f"{failure.file}: ({failure.kind}) {failure.detail}")
    how = "its receipt" if verdict.mode == "receipt" else "the whole model"
    said = "ready" if verdict.ready else figures.count(len(verdict.failures), "failure")
    read = f"{figures.count(verdict.files, 'file')}, {figures.size(verdict.nbytes)}"
    click.echo(f"{directory}: {read}, held against {how}: {said}")
