"""Recorded routing: JSON lines, one a token.

{"ids": [[7, 3], ...], "weights": [[0.6, 0.4], ...]}: for each layer with routed experts, in order,
the experts of the token; "weights" may be left out. A trace that is too short starts over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec
import numpy as np

from colibri.container.files import opened, read_range
from colibri.errors import ConfigError
from colibri.lab.results import write_text
from colibri.routing.base import F32, I32

_MAX_BYTES = 1 << 30


class Line(msgspec.Struct, frozen=True):
    ids: list[list[int]]
    weights: list[list[float]] | None = None


@dataclass(frozen=True)
class Trace:
    path: Path
    ids: I32  # [tokens, layers, k]
    weights: F32 | None

    def checked(self, experts: list[int], k: int) -> Self:
        """Refuses a trace of another model."""
        if self.ids.shape[1:] != (len(experts), k):
            layers, found = self.ids.shape[1:]
            raise ConfigError(
                f"{self.path}: a trace of {layers} layers with {found} experts a token; the model "
                f"has {len(experts)} layers with {k}"
            )
        if self.ids.min() < 0 or (self.ids.max(axis=(0, 2)) >= np.asarray(experts)).any():
            raise ConfigError(f"{self.path}: names experts that the model does not have")
        return self

    def rows(self, start: int, stop: int) -> tuple[I32, F32 | None]:
        at = np.arange(start, stop) % len(self.ids)
        return self.ids[at], None if self.weights is None else self.weights[at]


def write_trace(path: Path, ids: I32, weights: F32) -> None:
    """ids, weights [tokens, layers, k]."""
    encode = msgspec.json.encode
    rows = zip(ids.tolist(), weights.tolist(), strict=True)
    write_text(path, "".join(encode(Line(*row)).decode() + "\n" for row in rows))


def read_trace(path: Path) -> Trace:
    """Raises ContainerError if the file cannot be read, ConfigError if it is no trace."""
    with opened(path) as (fd, size):
        if size > _MAX_BYTES:
            raise ConfigError(f"{path}: {size} bytes; a trace has at most {_MAX_BYTES}")
        lines = list(_lines(path, read_range(fd, path, 0, size)))
    if not lines:
        raise ConfigError(f"{path}: an empty trace")
    try:
        ids = np.asarray([line.ids for line in lines], np.int32)
        weights = None
        if all(line.weights for line in lines):
            weights = np.asarray([line.weights for line in lines], np.float32)
    except (ValueError, OverflowError):
        raise ConfigError(f"{path}: lines differ in layers or experts a token") from None
    if ids.ndim != 3 or not ids.size or (weights is not None and weights.shape != ids.shape):
        raise ConfigError(f"{path}: ids, and weights if any, must be lists of lists of one shape")
    _check_distinct(path, ids)
    return Trace(path, ids, weights)


def _lines(path: Path, data: bytes) -> Iterator[Line]:
    decoder = msgspec.json.Decoder(Line)
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                yield decoder.decode(line)
            except (msgspec.ValidationError, msgspec.DecodeError) as error:
                raise ConfigError(f"{path}: line {number}: {error}") from None


def _check_distinct(path: Path, ids: I32) -> None:
    ordered = np.sort(ids, axis=2)
    bad = np.nonzero((ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=(1, 2)))[0]
    if len(bad):
        raise ConfigError(f"{path}: token {bad[0] + 1}: an expert is named twice in a layer")
