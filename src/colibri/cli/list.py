"""`coli list`: the models on this machine, and whether they run here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import figures, terminal
from colibri.cli.options import setting_option, take_some
from colibri.cli.types import Directory

if TYPE_CHECKING:
    from colibri.config import EngineConfig
    from colibri.planner.survey import Surveyed

_HEAD = ("model", "family", "format", "on disk", "runs here")


@dataclass(frozen=True)
class Place:
    """Where a model may be."""

    name: str  # as --model takes it
    path: Path
    others: tuple[Path, ...] = ()
    problem: str | None = None  # known before anything was read
    embedded: bool = False


@click.command("list")
@click.argument("directories", type=Directory(), nargs=-1, metavar="[DIRECTORY]...")
@setting_option("model_dirs")
@setting_option("ram")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(
    directories: tuple[Path, ...], model_dirs: str | None, ram: str | None, as_json: bool
) -> None:
    """List the models on this machine: name, family, format, size and whether each runs here.

    They are the embedded one, the one that COLI_MODEL or the configuration file names, those in the
    cache of Hugging Face's hub, that of `coli bench`, and those in each DIRECTORY, which is a model
    or holds some. Only headers are read. A model that does not run is listed with the reason.
    """
    from colibri.planner.budget import this_machine
    from colibri.planner.survey import Surveyed, in_a_phrase, survey

    config, machine = take_some(model_dirs=model_dirs, ram=ram), this_machine()
    found = [
        (
            place,
            survey(place.path, config, machine, place.others)
            if place.problem is None
            else Surveyed(place.path, problem=in_a_phrase(place.problem, place.path)),
        )
        for place in _each_once(_places(config, directories))
    ]
    if as_json:
        _write_json(found)
        return
    for line in _table(found):
        click.echo(terminal.harmless(line))
    _say_where_models_come_from(len(found))


def _places(config: EngineConfig, directories: Iterable[Path]) -> Iterator[Place]:
    from colibri.container.hubcache import EMBEDDED_NAME, hub_folder, hub_models
    from colibri.errors import ContainerError
    from colibri.lab.folder import default_folder
    from colibri.llm import embedded_model

    if embedded_model().is_dir():
        yield Place(f"{EMBEDDED_NAME} (embedded)", embedded_model(), embedded=True)
    if config.model is not None:
        yield _located(config.model, tuple(Path(name) for name in config.model_dirs))
    try:
        for model in hub_models(os.environ):
            yield Place(model.id, model.path, problem=model.problem)
    except ContainerError as error:
        folder = hub_folder(os.environ)
        assert folder is not None
        yield Place(str(folder), folder, problem=str(error))
    yield from _inside(str(default_folder(os.environ)))
    for directory in directories:
        yield from _in_directory(str(directory))


def _located(name: str, others: tuple[Path, ...] = ()) -> Place:
    from colibri.container.hubcache import located
    from colibri.errors import ContainerError

    try:
        return Place(name, located(name, os.environ), others)
    except ContainerError as error:
        return Place(name, Path(name), problem=str(error))


def _in_directory(name: str) -> Iterator[Place]:
    """The model that it is, else those that it holds; else it is one row, to say what it is."""
    place = _located(name)
    if place.problem is not None or _may_be_model(place.path):
        yield place
        return
    inside = list(_inside(name))
    yield from inside or [place]


def _inside(name: str) -> Iterator[Place]:
    path = Path(name)
    for child in _names(path):
        if (path / child).is_dir() and _may_be_model(path / child):
            yield _located(str(path / child))


def _may_be_model(path: Path) -> bool:
    from colibri.container.spec import JOURNAL_NAME

    known = {"config.json", "adapter_config.json", JOURNAL_NAME, "snapshots"}
    return any(n in known or n.endswith((".safetensors", ".gguf")) for n in _names(path))


def _names(path: Path) -> list[str]:
    """What cannot be read has none; whoever reads the model says why."""
    from colibri.container.files import list_names
    from colibri.errors import ContainerError

    try:
        return list_names(path)
    except ContainerError:
        return []


def _each_once(places: Iterable[Place]) -> Iterator[Place]:
    seen = set()
    for place in places:
        real = os.path.realpath(place.path)
        if real not in seen:
            seen.add(real)
            yield place


def _table(found: list[tuple[Place, Surveyed]]) -> Iterator[str]:
    rows = [_HEAD, *(_row(place, model) for place, model in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]])


def _row(place: Place, model: Surveyed) -> tuple[str, ...]:
    return (
        place.name,
        model.family or "-",
        _format(model),
        figures.size(model.bytes) if model.bytes else "-",
        f"no: {model.problem}" if model.problem else "yes",
    )


def _format(model: Surveyed) -> str:
    if model.converted is None:
        return "-"
    return f"{model.precision or 'no experts'} {'converted' if model.converted else 'downloaded'}"


def _write_json(found: list[tuple[Place, Surveyed]]) -> None:
    import msgspec

    from colibri.container.jsonfile import encode_json

    models: list[dict[str, Any]] = [
        {
            "name": str(place.path) if place.embedded else place.name,
            "path": str(place.path),
            "embedded": place.embedded,
            "family": model.family,
            "converted": model.converted,
            "precision": model.precision,
            "bytes": model.bytes,
            "runs": model.problem is None,
            "problem": model.problem,
        }
        for place, model in found
    ]
    click.echo(msgspec.json.format(encode_json({"models": models}), indent=2).decode())


def _say_where_models_come_from(count: int) -> None:
    from colibri.container.hubcache import hub_folder

    if count <= 1 and (folder := hub_folder(os.environ)) is not None:
        terminal.say_fact(f"no other model; `hf download ORG/NAME` puts one into {folder}")
