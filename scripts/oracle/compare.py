"""Compare colibri with references: `python -m scripts.oracle.compare DIR`.

DIR is what scripts.oracle.make wrote. Runs in the project's own environment (no torch) at source
precision and prints a line a checkpoint; exits with 1 if any logit is off by more than the
tolerance or any greedy token differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.errors import ColibriError
from scripts.oracle.reference import Reference, read

Logits = NDArray[np.float32]
Forward = Callable[[list[int]], Logits]

TOLERANCE = 1e-3


@dataclass(frozen=True)
class Outcome:
    difference: float  # largest |logit - reference|
    greedy_equal: bool

    @property
    def passed(self) -> bool:
        # Written so that NaN fails.
        return self.greedy_equal and self.difference <= TOLERANCE


def compare(forward: Forward, ref: Reference) -> Outcome:
    """The prompt alone, then prompt and greedy tokens in one go."""
    prompt = forward(ref.prompt_ids)
    whole = forward(ref.prompt_ids + ref.greedy_ids)
    start = len(ref.prompt_ids) - 1
    expected = ref.prompt_logits.shape
    if prompt.shape != expected or whole.shape != (start + 1 + len(ref.greedy_ids), expected[1]):
        return Outcome(float("nan"), False)
    difference = max(
        float(np.abs(prompt - ref.prompt_logits).max()),
        float(np.abs(whole[-1] - ref.last_logits).max()),
    )
    greedy = whole[start:-1].argmax(axis=-1).tolist()
    return Outcome(difference, greedy == ref.greedy_ids)


def _check(directory: Path) -> Outcome:
    from colibri import LLM

    llm = LLM(str(directory), trunk_bits="source", embed_bits=32)
    try:
        return compare(llm.forward, read(directory))
    finally:
        llm.close()


def _line(name: str, outcome: Outcome | str) -> str:
    if isinstance(outcome, str):
        return f"{name:24} {'FAILED':>10}  {outcome}"
    greedy = "equal" if outcome.greedy_equal else "DIFFERENT"
    verdict = "ok" if outcome.passed else "FAILED"
    return f"{name:24} {outcome.difference:10.2e}  greedy {greedy:9}  {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare colibri with reference logits.")
    parser.add_argument("directory", type=Path)
    root = parser.parse_args().directory
    found = sorted(p.parent for p in root.rglob("ref.json"))
    if not found:
        print(f"{root}: no references here; make them with `make oracle`", file=sys.stderr)
        return 2
    failed = 0
    for directory in found:
        try:
            outcome: Outcome | str = _check(directory)
        except ColibriError as error:
            outcome = str(error)
        failed += isinstance(outcome, str) or not outcome.passed
        print(_line(str(directory.relative_to(root)), outcome), flush=True)
    print(f"{len(found) - failed} of {len(found)} agree (tolerance {TOLERANCE:g})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
