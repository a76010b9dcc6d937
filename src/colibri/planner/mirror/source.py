"""A mirror against the model it was made from: is that still there, and still the same?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from colibri.container.mirror import Layers, header_bytes, model_identity, read_records
from colibri.container.receipt import MirrorFile, Receipt
from colibri.errors import ContainerError
from colibri.planner.mirror.content import Step, digest, file_content, records_content
from colibri.planner.mirror.verdict import Verdict

LayersOf = Callable[[Path], Layers]  # reads a model; may raise ContainerError


def check_source(
    verdict: Verdict,
    directory: Path,
    receipt: Receipt,
    files: Sequence[MirrorFile],
    model: Path,
    layers_of: LayersOf,
    step: Step,
    others: Sequence[Path],
) -> None:
    """`files` are those whose own content is right. A shard needs its counterpart only; hot records
    need a model that can be opened."""
    for file in files:
        if file.kind == "shard":
            places = [directory / file.name for directory in (model, *others)]
            found = next((place for place in places if place.is_file()), places[0])
            _check_shard(verdict, file, found, step)
    records = [file for file in files if file.kind == "records"]
    if not records:
        return
    try:
        layers = layers_of(model)
    except ContainerError as error:
        for file in records:
            verdict.fail("source missing", file.name, str(error))
        return
    for file in records:
        _check_records(verdict, directory, file, layers, receipt.model, step)


def _check_shard(verdict: Verdict, file: MirrorFile, source: Path, step: Step) -> None:
    if not source.is_file():
        verdict.fail("source missing", file.name, f"{source} is not there")
        return
    try:
        if digest(file_content(source), step) != file.sha256:
            raise ContainerError(f"{source} is not what was copied")
    except ContainerError as error:
        verdict.fail("source changed", file.name, str(error))


def _check_records(
    verdict: Verdict, directory: Path, file: MirrorFile, layers: Layers, identity: str, step: Step
) -> None:
    """The file, made from the model once more."""
    path = directory / file.name
    try:
        if model_identity(layers) != identity:
            raise ContainerError("the model is another one, or has changed since")
        found = read_records(path, layers, identity)
        in_order = sorted(found, key=lambda key: found[key].offset)
        content = chain([header_bytes(path)], records_content(in_order, layers))
        if digest(content, step) != file.sha256:
            raise ContainerError("the model's experts are not what was copied")
    except ContainerError as error:
        verdict.fail("source changed", file.name, str(error))
