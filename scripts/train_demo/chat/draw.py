"""A random draw of words and numbers, and what a task is.

Training and judging draw from disjoint sets: names, words and heroes by list, numbers and pairs of
numbers by a rule. So a right answer to a judged prompt was never seen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from scripts.train_demo.chat import words

T = TypeVar("T")

_ONSETS = (
    "",
    *"b c d f g h k l m n p r s t v w z".split(),
    *"br cl dr fl gr pl sh st th tr".split(),
)
_VOWELS = "a a e e i i o o u ai ea ee io oa".split()
_CODAS = ("", "", "", *"d k l m n n r s t".split(), "nd", "rt", "st")


@dataclass(frozen=True)
class Check:
    """How an answer is scored; scripts.train_demo.checks knows the kinds."""

    kind: str
    value: Any


@dataclass(frozen=True)
class Task:
    """One exchange or several: user and assistant in turn, the assistant last."""

    kind: str
    messages: list[str]
    check: Check | None = None


class Draw:
    """Random choices; `held` switches to the words and numbers that are kept for judging."""

    def __init__(self, seed: int, held: bool = False) -> None:
        self.random = random.Random(seed)
        self.held = held

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def made_up(self, syllables: int = 2) -> str:
        """A word of no language: copying it cannot be learnt by heart."""
        while True:
            parts = [self.pick(_ONSETS) + self.pick(_VOWELS) for _ in range(syllables)]
            word = "".join(parts) + self.pick(_CODAS)
            known = {*words.HELD_NOUNS, *words.HELD_HEROES, *(n.lower() for n in words.HELD_NAMES)}
            if 3 <= len(word) <= 10 and word not in known:
                return word

    def name(self) -> str:
        if self.held:
            return self.pick(words.HELD_NAMES)
        return self.made_up().capitalize() if self.chance(0.35) else self.pick(words.NAMES)

    def noun(self) -> str:
        return self.pick(words.HELD_NOUNS if self.held and self.chance(0.5) else words.NOUNS)

    def nouns(self, count: int) -> list[str]:
        pool = words.NOUNS + words.HELD_NOUNS if self.held else words.NOUNS
        chosen = self.random.sample(pool, count)
        return [self.made_up() if not self.held and self.chance(0.1) else w for w in chosen]

    def hero(self) -> str:
        return self.pick(words.HELD_HEROES if self.held else words.HEROES)

    def number(self, low: int = 2, high: int = 99) -> int:
        """One number of the range; every twelfth or so is kept for judging."""
        while True:
            n = self.integer(low, high)
            if (n % 12 == 7) == self.held or high - low < 24:
                return n

    def pair(self, low: int, high: int) -> tuple[int, int]:
        """Two numbers whose combination belongs to this side."""
        while True:
            a, b = self.integer(low, high), self.integer(low, high)
            if ((13 * a + 29 * b) % 10 == 3) == self.held:
                return a, b


def article(word: str) -> str:
    return f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"
