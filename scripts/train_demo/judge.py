"""Greedy answers to the held-out prompts, scored, as a table by kind."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from scripts.train_demo.checks import score
from scripts.train_demo.decode import answers
from scripts.train_demo.model import Model
from scripts.train_demo.template import prompt


def judge(model: Model, tokenizer: Tokenizer, held_out: Path, limit: int) -> list[dict[str, Any]]:
    """Each prompt with the model's answer and whether it is right."""
    items = [json.loads(line) for line in held_out.read_text(encoding="utf-8").splitlines()]
    given = answers(model, tokenizer, [prompt(item["prompt"]) for item in items], limit)
    return [
        {**item, "given": text, "right": score(text, item["check"])}
        for item, text in zip(items, given, strict=True)
    ]


def table(judged: list[dict[str, Any]]) -> str:
    counts: dict[str, list[bool]] = defaultdict(list)
    for item in judged:
        counts[item["kind"]].append(item["right"])
    counts["**all**"] = [item["right"] for item in judged]
    rows = [f"| {kind} | {sum(right)} | {len(right)} |" for kind, right in counts.items()]
    return "\n".join(["| kind | right | of |", "|---|---|---|", *rows])
