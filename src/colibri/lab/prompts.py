"""Prompts that ship: real text of several kinds, for whatever is measured on what people ask.

Written for this purpose. A model without a tokenizer gets token ids at random instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from colibri.container.files import list_names
from colibri.text.tokenizer import Tokenizer

PROMPTS = (
    "The lighthouse keeper wrote the weather into his book every evening. On the third of March he"
    " noted a wind from the north-west, a falling glass and, for the first time in eleven years, no"
    " ship at all between sunrise and dusk.",
    "def merge(left, right):\n"
    '    """Two sorted lists become one."""\n'
    "    merged, i, j = [], 0, 0\n"
    "    while i < len(left) and j < len(right):\n"
    "        if left[i] <= right[j]:\n",
    "Question: A train leaves at 9:40 and arrives at 13:05. It stops four times for six minutes"
    " each. How long does it move?\nAnswer: From 9:40 to 13:05 are 3 hours and 25 minutes. The"
    " stops take",
    "Die Wärmepumpe entzieht der Außenluft Energie und hebt sie auf ein höheres Temperaturniveau."
    " Je kleiner der Abstand zwischen Quelle und Vorlauf ist, desto",
    "Dear Ms Okafor,\n\nthank you for your letter of 12 May. We have looked into the delay of your"
    " order and found that two of the three parcels were sent to our old warehouse in Leeds."
    " We would like to",
    "Potassium reacts with water so fast that the hydrogen it sets free catches fire. Sodium, one"
    " row above it in the periodic table, reacts more slowly, because its outer electron",
    '{"name": "oven", "watts": 2300, "rooms": ["kitchen"], "on": false}\n'
    '{"name": "lamp", "watts": 9, "rooms": ["hall", "stairs"], "on":',
    "Once upon a time a small bird found a shiny button in the garden. She carried it to her"
    " friend the hedgehog and asked him what it was. The hedgehog looked at it for a long while"
    " and said:",
)
MOST_TOKENS = 64
_RANDOM_TOKENS = 32


def prompt_ids(model: Path, vocabulary: int, count: int | None = None) -> list[list[int]]:
    """The first `count` prompts (None: all) in the model's tokens, at most 64 of each."""
    texts = PROMPTS[:count]
    if "tokenizer.json" not in list_names(model):
        return _random(vocabulary, len(texts))
    tokenizer = Tokenizer.load(model)
    return [tokenizer.encode(text, add_special_tokens=True)[:MOST_TOKENS] for text in texts]


def _random(vocabulary: int, count: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    rows: Sequence[Sequence[int]] = rng.integers(0, vocabulary, (count, _RANDOM_TOKENS)).tolist()
    return [list(row) for row in rows]
