"""Experts missing a step when several conversations decode at once, on the draws of `coli bench
--conversations`: as the engine's cache decides, at best for who knows the law of the draws, and for
who knows the future.

    python -m benchmarks.conversation_caches [ROUTING [FRACTION]]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colibri.lab.drawing import Drawn, DrawnRows
from colibri.lab.replay.belady import Belady
from colibri.lab.replay.caches import CacheReplay
from colibri.lab.replay.demands import Demand
from colibri.lab.routing import parse_routing
from colibri.routing.trace import LayerFacts

LAYERS, EXPERTS, K = 16, 64, 8  # olmoe-1b-7b
PROMPT, ANSWER, RUNS = 16, 40, 3
LENGTH = PROMPT + ANSWER
Ids = NDArray[np.int32]


def main(routing: str = "zipf:1.0,persist:0.6", fraction: str = "0.25") -> None:
    drawn = parse_routing(routing)
    assert isinstance(drawn, Drawn)
    slots = round(float(fraction) * EXPERTS)
    ids, _ = DrawnRows(drawn, 0, [EXPERTS] * LAYERS, K).rows(0, 6000)
    print(f"{routing}, {slots} slots of {EXPERTS}: missing a step of {LAYERS} layers")
    for count in (1, 2, 4):
        # After the warm-up and the runs of one conversation alone.
        first = 1 if count == 1 else 1 + RUNS
        groups = [[(first + run * count + i) * LENGTH for i in range(count)] for run in range(RUNS)]
        found = np.mean([_missing(ids, begins, slots, drawn) for begins in groups], axis=0)
        print(f"{count} at once: lfru {found[0]:.1f}, law {found[1]:.1f}, belady {found[2]:.1f}")


def _missing(ids: Ids, begins: Sequence[int], slots: int, drawn: Drawn) -> list[float]:
    facts = [LayerFacts(layer, EXPERTS, K, 1, 1) for layer in range(LAYERS)]
    capacity = dict.fromkeys(range(LAYERS), slots)
    engine, optimum = CacheReplay(facts, capacity, "lfru", "layer"), Belady(facts, "layer")
    for step in range(ANSWER + 1):
        for layer in range(LAYERS):
            union = np.unique(_rows(ids, begins, step, layer))
            demand = Demand(layer, union.tolist(), union, not step, False, step)
            engine.call(demand)
            optimum.call(demand)
    law = sum(_law(ids, begins, layer, slots, drawn) for layer in range(LAYERS))
    replayed, best = engine.tally().decode.misses, optimum.tally(capacity).decode.misses
    return [replayed / ANSWER, law / ANSWER, best / ANSWER]


def _rows(ids: Ids, begins: Sequence[int], step: int, layer: int) -> Ids:
    """[rows, k], of the prompts (step 0) or of a step of decode."""
    if not step:
        return np.concatenate([ids[begin : begin + PROMPT, layer] for begin in begins])
    return ids[[begin + PROMPT + step - 1 for begin in begins], layer]


def _law(ids: Ids, begins: Sequence[int], layer: int, slots: int, drawn: Drawn) -> int:
    """Missing over all steps, if those stay that are likeliest in the next: the popularity of each
    and that a row keeps each of its experts with the given probability are known."""
    chosen = np.bincount(ids[:, layer].ravel(), minlength=EXPERTS) / len(ids)
    missing, held = 0, np.zeros(EXPERTS, np.bool_)
    for step in range(ANSWER + 1):
        rows = _rows(ids, begins, step, layer)
        asked = np.zeros(EXPERTS, np.bool_)
        asked[rows] = True
        missing += int((asked & ~held).sum()) if step else 0
        nobody = np.ones(EXPERTS)
        for row in rows[-len(begins) :]:
            again = (1 - drawn.persistence) * np.minimum(chosen, 1.0)
            again[row] = drawn.persistence + (1 - drawn.persistence) * again[row]
            nobody *= 1 - again
        likely = np.where(held | asked, 1 - nobody, -1.0)
        held = np.zeros(EXPERTS, np.bool_)
        held[np.argsort(-likely, kind="stable")[:slots]] = True
    return missing


if __name__ == "__main__":
    main(*sys.argv[1:])
