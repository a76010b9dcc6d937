"""What lies in a model's directory, and whether it runs on this machine, from headers alone."""

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from colibri.config import EngineConfig
from colibri.container.files import list_names
from colibri.container.foreign import check_is_model
from colibri.container.jsonfile import read_json
from colibri.container.layerexperts import main_layers
from colibri.container.missing import without_data
from colibri.container.reader import Container, open_container
from colibri.errors import ColibriError, ContainerError, ReadError
from colibri.models.registry import family_for
from colibri.planner.assess import open_outline
from colibri.planner.budget import Machine
from colibri.planner.ofmodel import plan_of
from colibri.text.tokenizermemory import memory_of
from colibri.words import are, count

_LONGEST = 120  # characters of a problem


@dataclass(frozen=True)
class Surveyed:
    path: Path
    bytes: int = 0  # on disk
    family: str | None = None
    converted: bool | None = None
    precision: str | None = None  # of its experts
    problem: str | None = None  # why it does not run here, in one phrase


def survey(
    path: Path, config: EngineConfig, machine: Machine, others: Sequence[Path] = ()
) -> Surveyed:
    """Whatever is wrong with the model is its problem, never an error."""
    found = Surveyed(path)
    try:
        found = replace(found, bytes=sum(map(_size_on_disk, (path, *others))))
        check_is_model(path)
        found = replace(found, family=_named_family(path))
        container, problem = _opened(path, others)
        found = _described(found, container)
        if problem is None:
            plan_of(container, config, memory_of(path), machine)
    except ColibriError as error:
        problem = in_a_phrase(error, path)
    return replace(found, problem=problem)


def in_a_phrase(error: ColibriError | str, path: Path) -> str:
    """An error about a directory, where that is named beside it already."""
    first, *_ = str(error).splitlines() or [""]
    text, _, _ = first.replace(f"{path}{os.sep}", "").removeprefix(f"{path}: ").partition("; ")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _opened(path: Path, others: Sequence[Path]) -> tuple[Container, str | None]:
    """The model, or as much of it as was downloaded and what is missing."""
    try:
        return open_container(path, lambda c: family_for(c).weights_of(c), others=others), None
    except ReadError:
        raise
    except ContainerError:
        with contextlib.suppress(ContainerError):
            outline = open_outline(path, others)
            short, files = without_data(outline)
            if short:
                of = f"{short} of {count(files, 'file')}"
                return outline, f"half-downloaded: {of} {are(short)} not complete"
        raise


def _described(found: Surveyed, container: Container) -> Surveyed:
    layers = main_layers(container.expert_layers()).values()
    schemes = sorted({layer.layout.format.name for layer in layers})
    return replace(found, converted=container.converted, precision="+".join(schemes) or None)


def _named_family(path: Path) -> str | None:
    name = read_json(path / "config.json").get("model_type")
    return name[:_LONGEST] if isinstance(name, str) else None


def _size_on_disk(directory: Path) -> int:
    """Bytes of its files, those included that it has as links. What cannot be read counts none."""
    total = 0
    for name in list_names(directory):
        with contextlib.suppress(OSError):
            status = os.stat(directory / name)
            total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total
