"""The generated conversations: repeatable, right, and apart from what is judged."""

import itertools
import json
import re
from typing import Any

import pytest

from scripts.train_demo.chat import numbers
from scripts.train_demo.chat.draw import Draw
from scripts.train_demo.chat.generate import KINDS, conversation, conversations, held_out
from scripts.train_demo.chat.words import HELD_HEROES, HELD_NAMES, HELD_NOUNS
from scripts.train_demo.checks import score
from scripts.train_demo.template import JINJA, prompt, render


def texts(seed: int, size: int) -> list[str]:
    return [m for made in conversations(seed, size) for m in made["messages"]]


def test_a_seed_is_repeatable_and_another_one_differs() -> None:
    assert texts(1, 5000) == texts(1, 5000)
    assert texts(1, 5000) != texts(2, 5000)


def test_every_conversation_ends_with_the_assistant() -> None:
    d = Draw(3)
    for _ in range(300):
        messages = conversation(d, 6.0)["messages"]
        assert len(messages) % 2 == 0
        assert all(messages)


def test_training_never_shows_what_is_judged() -> None:
    shown = set(re.findall(r"\w+", " ".join(texts(4, 400_000))))
    shown |= {word.lower() for word in shown}
    assert shown.isdisjoint(HELD_NAMES)
    assert shown.isdisjoint(HELD_NOUNS)
    assert shown.isdisjoint(HELD_HEROES)


def test_pairs_of_numbers_are_split_between_training_and_judging() -> None:
    training, judging = Draw(5), Draw(5, held=True)
    seen = {training.pair(1, 30) for _ in range(3000)}
    assert seen.isdisjoint({judging.pair(1, 30) for _ in range(300)})


@pytest.mark.parametrize(
    ("a", "b"), [(47, 38), (90, 12), (7, 6), (30, 20), (99, 99), (13, 58), (60, 5), (41, 40)]
)
def test_written_steps_are_true(a: int, b: int) -> None:
    steps = numbers.sum_steps(a, b)
    if a >= b:
        steps += " " + numbers.difference_steps(a, b)
    equations = re.findall(r"(\d+) ([+-]) (\d+) = (\d+)", steps)
    assert equations
    for left, sign, right, result in equations:
        term = int(right) if sign == "+" else -int(right)
        assert int(left) + term == int(result)


def test_reference_answers_pass_their_own_checks_and_nonsense_does_not() -> None:
    judged = json.loads(json.dumps(list(held_out(7))))
    assert len(judged) == sum(count for _, _, count in KINDS)
    programs: dict[str, int] = {}
    for item in judged:
        kind = item["check"]["kind"]
        programs[kind] = programs.get(kind, 0) + 1
        # Running every program would take seconds.
        if kind != "python" or programs[kind] < 3:
            assert score(item["answer"], item["check"]), item
            assert not score("nonsense", item["check"]), item


@pytest.mark.parametrize(
    ("answer", "check"),
    [
        ("The sum is 12 or 13.", {"kind": "number", "value": 12}),
        ("```sql\nSELECT name FROM users;\n```", {"kind": "sql", "value": "SELECT * FROM users;"}),
        ("```sql\nDROP\n```", {"kind": "sql", "value": "SELECT * FROM users;"}),
        ("def f(x):\n    return x", {"kind": "python", "value": [[1, 2]]}),
        ("def f(x:", {"kind": "python", "value": [[1, 1]]}),
        ("Aurel met Ada. " * 20, {"kind": "story", "value": ["Aurel"]}),
    ],
)
def test_wrong_answers_are_wrong(answer: str, check: dict[str, Any]) -> None:
    assert not score(answer, check)


def test_the_jinja_template_renders_what_training_sees() -> None:
    jinja2 = pytest.importorskip("jinja2")
    roles = itertools.cycle(["user", "assistant"])
    said = ["Hello", "Hello!", "Who are you?"]
    messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
    template = jinja2.Template(JINJA)
    assert template.render(messages=messages, add_generation_prompt=True) == prompt(said)
    system = [{"role": "system", "content": "Be brief."}, *messages]
    assert template.render(messages=system) == render(said, "Be brief.")
