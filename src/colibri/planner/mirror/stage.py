"""Staging a mirror: file by file, each verified and journaled before the next, the receipt last.

Nothing that was there before is overwritten or deleted. A file that is there under the name of one
to be staged is taken as it is if it holds the same bytes, and refused by name otherwise.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from colibri.container.lock import locked
from colibri.container.mirror import Layers, same_device
from colibri.container.receipt import MirrorFile
from colibri.container.writer import FULL_DISK, PART_SUFFIX, FileWriter, free_bytes
from colibri.errors import CapacityError, ConfigError, ContainerError
from colibri.hardware import probe
from colibri.planner.mirror.content import Step, digest, file_content, planned_content
from colibri.planner.mirror.ledger import Ledger
from colibri.planner.mirror.plan import FILE_BYTES, Heat, MirrorPlan, PlannedFile, Unit, make_plan


@dataclass(frozen=True)
class Model:
    """What is mirrored. `sha256`: of its files, where the manifest says them."""

    directory: Path
    layers: Layers
    identity: str
    sha256: Mapping[str, str]


@dataclass(frozen=True)
class Wishes:
    """`budget_bytes`: what all files of the mirror may take, None for no limit of their own.
    `reserve_bytes` of the drive stay free in any case."""

    unit: Unit
    budget_bytes: int | None
    reserve_bytes: int
    file_bytes: int = FILE_BYTES


def plan_mirror(model: Model, target: Path, heat: Heat, wishes: Wishes) -> MirrorPlan:
    """What stage_mirror would do now; writes nothing."""
    _check_places(model.directory, target)
    return _plan(model, target, heat, wishes, Ledger(target, model.directory, model.identity))


def stage_mirror(
    model: Model,
    target: Path,
    heat: Heat,
    wishes: Wishes,
    on_plan: Callable[[MirrorPlan], None],
    step: Step,
) -> MirrorPlan:
    """Make or complete a mirror; the plan that was carried out.

    step: called every few MB with the bytes to be written; may raise to stop. Whatever stops it,
    the next call goes on with what is missing. Raises ConfigError, ContainerError, CapacityError.
    """
    _check_places(model.directory, target)
    with _refusing_a_full_disk(target), locked(target, "coli mirror stage"):
        ledger = Ledger(target, model.directory, model.identity)
        plan = _plan(model, target, heat, wishes, ledger)
        on_plan(plan)
        for planned in plan.files:
            ledger.add(_stage_file(model, target, planned, ledger, wishes.reserve_bytes, step))
        ledger.finish()
        return plan


def warnings(model: Path, target: Path) -> list[str]:
    """What makes a mirror of little use."""
    if same_device(model, probe.existing(target)):
        return [
            f"{target} lies on the same drive as {model}: a second copy there brings no speed, "
            "only another place to read from should the first be damaged"
        ]
    return []


def _plan(model: Model, target: Path, heat: Heat, wishes: Wishes, ledger: Ledger) -> MirrorPlan:
    present = ledger.present(model.layers)
    room = probe.free_bytes(target) - wishes.reserve_bytes
    if wishes.budget_bytes is not None:
        room = min(room, wishes.budget_bytes - present.nbytes)
    plan = make_plan(
        model.layers,
        heat,
        model.identity,
        unit=wishes.unit,
        room_bytes=room,
        present=present,
        file_bytes=wishes.file_bytes,
    )
    if wishes.unit == "records" and plan.share is None and plan.experts < plan.experts_total:
        raise ConfigError(
            "which experts are hot is not known, and there is no room for all: run the model for a "
            "while first, name counts with --heat, or copy whole files with --unit shards"
        )
    return plan


@contextlib.contextmanager
def _refusing_a_full_disk(target: Path) -> Iterator[None]:
    """Of what is no file: the directory itself, and removing the journal."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        raise CapacityError(
            f"{target}: the drive is full or a quota is reached; free space and run the same "
            "command to go on"
        ) from error


def _check_places(model: Path, target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise ConfigError(f"{target}: is a file; give a directory for the mirror")
    if target.exists() and target.samefile(model):
        raise ConfigError(f"{target}: is the model's own directory; a mirror is another one")


def _stage_file(
    model: Model,
    target: Path,
    planned: PlannedFile,
    ledger: Ledger,
    reserve_bytes: int,
    step: Step,
) -> MirrorFile:
    path = target / planned.name
    if os.path.lexists(path):
        sha256 = _adopted(path, planned, model.layers, step)
    else:
        _check_part(path, ledger)
        _check_space(path, planned.size, reserve_bytes)
        ledger.begin(planned.name)
        sha256 = _written(path, planned, model, step)
    return MirrorFile(planned.name, planned.kind, planned.size, sha256, len(planned.experts))


def _adopted(path: Path, planned: PlannedFile, layers: Layers, step: Step) -> str:
    """The hash of a file that was there. Also one that was finished, but not yet journaled."""
    if path.is_file() and path.stat().st_size == planned.size:
        sha256 = digest(file_content(path), step)
        if sha256 == digest(planned_content(planned, layers)):
            return sha256
    raise ConfigError(
        f"{path}: was there before and is not what would be staged under this name; move it away "
        "or give another directory"
    )


def _check_part(path: Path, ledger: Ledger) -> None:
    part = path.with_name(path.name + PART_SUFFIX)
    if os.path.lexists(part) and ledger.writing != path.name:
        raise ConfigError(
            f"{part}: was there before, and staging would overwrite it; move it away or give "
            "another directory"
        )


def _check_space(path: Path, size: int, reserve_bytes: int) -> None:
    free = free_bytes(path.parent)
    if free < size + reserve_bytes:
        raise CapacityError(
            f"{path}: takes {size} bytes, and {reserve_bytes} are to stay free; {free} are free: "
            f"{size + reserve_bytes - free} bytes are missing; free them and run the same command "
            "to go on, or give a smaller --budget"
        )


def _written(path: Path, planned: PlannedFile, model: Model, step: Step) -> str:
    with contextlib.closing(FileWriter(path, planned.size)) as writer:
        with contextlib.closing(planned_content(planned, model.layers)) as chunks:
            sha256 = writer.fill(chunks, step)
        recorded = model.sha256.get(planned.name, sha256)
        if sha256 != recorded:
            raise ContainerError(
                f"{planned.source}: its content is not what the manifest says: damaged; restore "
                "this file or convert the model again"
            )
        return writer.publish(step).sha256
