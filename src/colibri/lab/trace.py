"""Recorded routing as a table of tokens, for the bench to follow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from colibri.errors import ConfigError
from colibri.routing.base import F32, I32
from colibri.routing.trace import Call, TraceFile
from colibri.words import count

_MOST_ROWS = 1 << 20  # in memory, of all layers


@dataclass(frozen=True)
class Trace:
    """The rows of all steps in turn; one that is too short starts over."""

    path: Path
    ids: I32  # [tokens, layers, k]
    weights: F32

    def checked(self, experts: list[int], k: int) -> Self:
        """Refuses a trace of another model."""
        if self.ids.shape[1:] != (len(experts), k):
            layers, found = self.ids.shape[1:]
            raise ConfigError(
                f"{self.path}: a trace of {count(layers, 'layer')} with "
                f"{count(found, 'expert')} a token; the model has "
                f"{count(len(experts), 'layer')} with {k}"
            )
        if (self.ids.max(axis=(0, 2)) >= np.asarray(experts)).any():
            raise ConfigError(f"{self.path}: names experts that the model does not have")
        return self

    def rows(self, start: int, stop: int) -> tuple[I32, F32 | None]:
        at = np.arange(start, stop) % len(self.ids)
        return self.ids[at], self.weights[at]


def read_trace(path: Path) -> Trace:
    """Raises ContainerError if the file cannot be read or is damaged, ConfigError if it is no trace
    or its layers differ in experts a token."""
    trace = TraceFile(path)
    if len({n.k for n in trace.header.layers}) > 1:
        raise ConfigError(f"{path}: its layers differ in experts a token")
    calls: dict[int, list[Call]] = {n.layer: [] for n in trace.header.layers}
    rows = 0
    for call in trace.calls():
        if call.ids.shape[1] != trace.header.layers[0].k:
            raise ConfigError(f"{path}: its tokens differ in experts (--expert-top-p)")
        rows += len(call.ids)
        if rows > _MOST_ROWS:
            raise ConfigError(f"{path}: more than {_MOST_ROWS} rows; record a shorter run")
        calls[call.layer].append(call)
    # A run that was killed has its last step in the first layers only.
    tokens = min((sum(len(call.ids) for call in found) for found in calls.values()), default=0)
    if not tokens:
        raise ConfigError(f"{path}: an empty trace")
    ids = [np.concatenate([call.ids for call in found])[:tokens] for found in calls.values()]
    weights = [np.concatenate([c.weights for c in found])[:tokens] for found in calls.values()]
    return Trace(path, np.stack(ids, axis=1), np.stack(weights, axis=1))
