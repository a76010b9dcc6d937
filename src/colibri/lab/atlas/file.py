"""An atlas on disk: one JSON object, made for one model, checked before it is believed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from colibri.config import state_folder
from colibri.container.jsonfile import encode_json, read_json
from colibri.container.output import check_writable, write_bytes
from colibri.errors import ConfigError, ContainerError
from colibri.experts.usage.file import Subject
from colibri.lab.atlas.affinity import AXES
from colibri.lab.atlas.topics import LEAST_TOPICS, MOST_TOPICS
from colibri.lab.atlas.words import MOST_NEIGHBOURS, MOST_TOKENS
from colibri.words import count

NAME = "colibri-atlas.json"
VERSION = 1
_MOST_TEXT = 64
Places = list[list[float]]  # [n, 3]


class TopicFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    prompts: int
    tokens: int  # counted
    pole: list[float]  # [3]


class LayerFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a layer's experts in order. tokens, neighbours: the strongest first."""

    layer: int
    selections: list[list[int]]  # [experts, topics]
    places: Places
    tokens: list[list[str]]
    neighbours: list[list[int]]


class Atlas(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="format", tag="colibri-atlas"
):
    model: str
    fingerprint: str
    topics: list[TopicFacts]
    layers: list[LayerFacts]
    experts_per_token: int
    smoothing: float
    variance: list[float]  # that each of the three axes holds, of all
    version: int = VERSION

    @property
    def experts(self) -> int:
        return sum(len(layer.selections) for layer in self.layers)


def atlas_paths(directory: Path, subject: Subject, environ: Mapping[str, str]) -> list[Path]:
    """Where a model's atlas is looked for: beside it, then in the user's state directory."""
    beside, state = directory / NAME, state_folder(environ)
    return [beside, *([state / "atlas" / f"{subject.fingerprint}.{NAME}"] if state else [])]


def default_path(
    directory: Path, subject: Subject, environ: Mapping[str, str], *, embedded: bool
) -> Path:
    """Where it is written: beside the model, or where that may not be, in the state directory: the
    embedded model's directory is the program's. One that is in the state directory is replaced
    there, where it is looked for first. Raises ConfigError."""
    beside, *others = atlas_paths(directory, subject, environ)
    replaces = any(path.exists() for path in others)
    if not embedded and not replaces and os.access(directory, os.W_OK):
        return beside
    if not others:
        raise ConfigError(f"{directory} may not be written to: give --out FILE")
    return others[0]


def prepare(path: Path) -> None:
    """A default_path() for what is to be written once the work is done. Raises ConfigError,
    ContainerError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ContainerError(f"{path}: cannot be written: {error.strerror or error}") from error
    check_writable("the atlas", path)
    if path.exists() and not path.is_file():
        raise ConfigError(f"the atlas: {path} is there already, and is no plain file")


def find_atlas(directory: Path, subject: Subject, environ: Mapping[str, str]) -> Path | None:
    """The user's own is newer than one that was there before."""
    found = [path for path in atlas_paths(directory, subject, environ) if path.is_file()]
    return found[-1] if found else None


def write_atlas(path: Path, atlas: Atlas) -> None:
    """Raises ContainerError, CapacityError; then the file is as it was."""
    write_bytes(path, encode_json(atlas) + b"\n")


def read_atlas(path: Path, subject: Subject | None = None) -> Atlas:
    """subject: whose atlas it has to be. Raises ContainerError if it cannot be read or makes no
    sense, ConfigError if it is another model's or of a later version."""
    document = read_json(path)
    if document.get("format") == "colibri-atlas" and document.get("version") != VERSION:
        raise ConfigError(
            f"{path}: an atlas of version {document.get('version')!a}; this one reads {VERSION}: "
            "build it anew with coli atlas build"
        )
    try:
        atlas = msgspec.convert(document, Atlas)
    except msgspec.ValidationError as error:
        raise ContainerError(f"{path}: no atlas of coli: {error}") from None
    if problem := _problem(atlas):
        raise ContainerError(f"{path}: damaged: {problem}; build it anew with coli atlas build")
    if subject is not None:
        _check_subject(atlas, subject, path)
    return atlas


def _check_subject(atlas: Atlas, subject: Subject, path: Path) -> None:
    experts = {layer.layer: len(layer.selections) for layer in atlas.layers}
    if atlas.fingerprint != subject.fingerprint or experts != dict(subject.experts):
        raise ConfigError(
            f"{path}: the atlas of {atlas.model!a} ({atlas.fingerprint}), and this model is "
            f"{subject.name!a} ({subject.fingerprint}): build its own with coli atlas build"
        )


def _problem(atlas: Atlas) -> str:
    topics, numbers = len(atlas.topics), [layer.layer for layer in atlas.layers]
    if not LEAST_TOPICS <= topics <= MOST_TOPICS:
        return count(topics, "topic")
    if not numbers or sorted(set(numbers)) != numbers or numbers[0] < 0:
        return "its layers are not in order"
    if not 0 < atlas.smoothing < 1e6 or len(atlas.variance) != AXES:
        return "its numbers are none that are written"
    if not _in_ball([topic.pole for topic in atlas.topics]):
        return "a topic lies nowhere"
    if any(topic.tokens < 1 or topic.prompts < 1 for topic in atlas.topics):
        return "a topic without tokens"
    limits = [topic.tokens for topic in atlas.topics]
    problems = (_layer_problem(layer, limits) for layer in atlas.layers)
    return next((problem for problem in problems if problem), "")


def _layer_problem(layer: LayerFacts, limits: list[int]) -> str:
    experts = len(layer.selections)
    for column in (layer.places, layer.tokens, layer.neighbours):
        if len(column) != experts:
            entries = count(len(column), "entry", "entries")
            return f"layer {layer.layer}: {entries} of {count(experts, 'expert')}"
    for row in layer.selections:
        if len(row) != len(limits) or any(
            not 0 <= n <= most for n, most in zip(row, limits, strict=True)
        ):
            return f"layer {layer.layer}: selections that cannot be"
    if not _in_ball(layer.places):
        return f"layer {layer.layer}: an expert lies nowhere"
    for names in layer.tokens:
        if len(names) > MOST_TOKENS or any(len(name) > _MOST_TEXT for name in names):
            return f"layer {layer.layer}: tokens that are too many or too long"
    for others in layer.neighbours:
        if len(others) > MOST_NEIGHBOURS or any(not 0 <= n < experts for n in others):
            return f"layer {layer.layer}: neighbours that it does not have"
    return ""


def _in_ball(places: Places) -> bool:
    return all(
        len(place) == AXES and all(math.isfinite(x) for x in place) and math.hypot(*place) <= 1.001
        for place in places
    )
