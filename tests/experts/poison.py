"""An arena whose slots are overwritten the moment they may no longer be read.

A slot that is given up, or into which a read is about to begin, holds other bytes from then on. On
a fast disk the old bytes often survive until a faulty read of them is over; poisoned they never do,
so that the test of a result finds every use of a slot that belongs to somebody else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colibri.experts.cache.arena import Arena
from colibri.experts.cache.layer import LayerCache
from colibri.experts.reads.job import Job
from colibri.experts.stage import LayerStage

POISON = 0x5A  # finite as bf16 and f32, so that a result is wrong rather than refused


class Poison:
    """Overwrites slots; counts how many it was told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given_up = self.begun = 0
        arenas: dict[int, Arena] = {}  # by the caches that share one
        begin, drop, job = LayerStage.__init__, LayerCache.drop, LayerStage.job

        def remember(stage: LayerStage, *args: Any) -> None:
            begin(stage, *args)
            arenas[id(stage.cache)] = stage._arena

        def poison_given_up(cache: LayerCache, expert: int) -> None:
            if cache.resident[expert] and id(cache) in arenas:
                _overwrite(arenas[id(cache)], cache.slot(expert))
                self.given_up += 1
            drop(cache, expert)

        def poison_begun(stage: LayerStage, expert: int, slot: int, ahead: bool = False) -> Job:
            _overwrite(stage._arena, slot)
            self.begun += 1
            return job(stage, expert, slot, ahead)

        monkeypatch.setattr(LayerStage, "__init__", remember)
        monkeypatch.setattr(LayerCache, "drop", poison_given_up)
        monkeypatch.setattr(LayerStage, "job", poison_begun)


def _overwrite(arena: Arena, slot: int) -> None:
    np.frombuffer(arena.view(slot), np.uint8)[:] = POISON
