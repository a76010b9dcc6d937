"""Checks of the weight files: headers, shards, tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colibri.container.header import read_header
from colibri.container.spec import MANIFEST_NAME
from colibri.container.spread import SUFFIX
from colibri.errors import ColibriError
from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, at_most_a_few, failed, passed, warned
from colibri.words import count

AGAIN = "download or copy this file again, or convert the model again"


def headers(case: Case) -> Sequence[Found]:
    """Each file's header: dtypes, shapes, offsets without holes or overlaps, the file's length."""
    files = case.model.weight_files
    if not files:
        fix = "download the model's weights as safetensors files"
        return [failed(f"no {SUFFIX} files here", case.model.path, fix=fix)]
    found, tensors = [], 0
    for file in files:
        try:
            tensors += len(read_header(file)[0])
        except ColibriError as error:
            found.append(failed(str(error), file, fix=AGAIN))
    return list(at_most_a_few(found)) or [
        passed(f"{count(len(files), 'file')} with {count(tensors, 'tensor')}")
    ]


def shards(case: Case) -> Sequence[Found]:
    """The set is complete and of one model: numbers, index against tensors, nothing twice."""
    model = case.model
    if model.converted:
        where, listed = model.path / MANIFEST_NAME, {e.name for e in model.manifest.files}
        here = {file.name for file in model.weight_files}.union(model.names)
        if lost := sorted(listed - here):
            return _lost(model.path, lost)
    else:
        where, listed = (
            model.path,
            {t.file.name for t in model.stored.values()},
        )
    stray = [file.name for file in model.weight_files if file.name not in listed]
    if stray:
        what = f"not part of this model: {', '.join(stray[:5])}" + (", ..." if stray[5:] else "")
        return [warned(what, where, fix="move them elsewhere; they only take space")]
    return [passed("complete, and each tensor in one place")]


def _lost(path: Path, names: Sequence[str]) -> Sequence[Found]:
    return list(at_most_a_few([failed(f"{n} is missing", path / n, fix=AGAIN) for n in names]))


def tensors(case: Case) -> Sequence[Found]:
    """What config.json asks for is there, in its shape, in a dtype that runs; nothing unknown."""
    container = case.model.container
    layers = container.expert_layers().values()
    experts = sum(layer.num_experts for layer in layers)
    trunk = count(len(container.names()), "trunk tensor")
    what = f"{trunk}, {count(experts, 'expert')} in {count(len(layers), 'layer')}"
    return [passed(what)]
