"""Training conversations and the held-out prompts that judge a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from scripts.train_demo.chat import code, copying, knowledge, numbers, stories
from scripts.train_demo.chat.draw import Draw, Task

Maker = Callable[[Draw], Task]

# Share of each kind in training, and how many prompts of it are judged.
KINDS: list[tuple[Maker, float, int]] = [
    (copying.name, 11, 16),
    (copying.reading, 10, 14),
    (copying.repeat, 9, 12),
    (copying.remember, 4, 6),
    (copying.listing, 9, 14),
    (copying.spelling, 6, 8),
    (numbers.addition, 8, 16),
    (numbers.subtraction, 8, 10),
    (numbers.product, 5, 8),
    (numbers.word_problem, 4, 8),
    (numbers.comparison, 3, 8),
    (numbers.counting, 4, 8),
    (knowledge.capital, 6, 14),
    (knowledge.fact, 6, 10),
    (knowledge.calendar, 2, 4),
    (knowledge.explanation, 4, 4),
    (knowledge.translation, 4, 4),
    (knowledge.chinese, 2, 2),
    (knowledge.small_talk, 5, 4),
    (knowledge.refusal, 3, 4),
    (stories.story, 10, 8),
    (stories.poem, 2, 0),
    (stories.letter, 4, 4),
    (code.python, 4, 6),
    (code.sql, 4, 4),
    (code.javascript, 2, 2),
    (code.json_object, 4, 6),
]
_SYSTEM = [
    "You are Colibri, a very small language model.",
    "Answer shortly.",
    "You are a friendly helper.",
]
_LONGEST = 1000  # characters: conversations beyond the training context teach nothing


def conversation(d: Draw, long_copies: float) -> dict[str, Any]:
    """One to four tasks in a row; now and then a system message before them."""
    makers: list[Maker] = [maker for maker, _, _ in KINDS] + [copying.long_copy]
    weights = [weight for _, weight, _ in KINDS] + [long_copies]
    messages: list[str] = []
    for _ in range(d.random.choices([1, 2, 3, 4], [4, 3, 2, 1])[0]):
        messages += d.random.choices(makers, weights)[0](d).messages
        if sum(map(len, messages)) > _LONGEST:
            break
    system = d.pick(_SYSTEM) if d.chance(0.08) else None
    return {"system": system, "messages": messages}


def conversations(seed: int, size: int, long_copies: float = 6.0) -> Iterator[dict[str, Any]]:
    """About `size` bytes of conversations; another seed gives others."""
    d = Draw(seed)
    while size > 0:
        made = conversation(d, long_copies)
        size -= sum(len(m.encode()) for m in made["messages"])
        yield made


def held_out(seed: int) -> Iterator[dict[str, Any]]:
    """Distinct prompts with their checks, from words and numbers that training never shows."""
    d = Draw(seed, held=True)
    for maker, _, count in KINDS:
        seen: set[str] = set()
        for _ in range(100 * count):
            task = maker(d)
            prompt = task.messages[:-1]
            if len(seen) < count and repr(prompt) not in seen and task.check is not None:
                seen.add(repr(prompt))
                check = {"kind": task.check.kind, "value": task.check.value}
                answer = task.messages[-1]
                yield {"kind": task.kind, "prompt": prompt, "answer": answer, "check": check}
