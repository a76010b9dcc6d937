"""Sums with their steps written out, comparison and counting."""

from __future__ import annotations

from scripts.train_demo.chat.draw import Check, Draw, Task
from scripts.train_demo.chat.words import COUNTED


def sum_steps(a: int, b: int) -> str:
    """Tens and ones apart: each step is small enough to be learnt."""
    if a < 10 or b < 10 or a % 10 == 0 or b % 10 == 0:
        return f"{a} + {b} = {a + b}."
    tens, ones = a - a % 10 + b - b % 10, a % 10 + b % 10
    split = f"{a - a % 10} + {b - b % 10} = {tens} and {a % 10} + {b % 10} = {ones}"
    return f"{split}, so {a} + {b} = {a + b}."


def difference_steps(a: int, b: int) -> str:
    if b < 10 or b % 10 == 0:
        return f"{a} - {b} = {a - b}."
    rest = a - (b - b % 10)
    return f"{a} - {b - b % 10} = {rest} and {rest} - {b % 10} = {a - b}, so {a} - {b} = {a - b}."


def addition(d: Draw) -> Task:
    a, b = d.pair(1, 99) if d.chance(0.7) else d.pair(0, 12)
    lead = d.pick(["What is {} + {}?", "{} + {} =", "Add {} and {}.", "How much is {} plus {}?"])
    return Task("addition", [lead.format(a, b), sum_steps(a, b)], Check("number", a + b))


def subtraction(d: Draw) -> Task:
    a, b = d.pair(1, 99) if d.chance(0.7) else d.pair(1, 20)
    while a < b:
        a, b = d.pair(1, 99)
    lead = d.pick(["What is {} - {}?", "{} - {} =", "How much is {} minus {}?"])
    return Task("subtraction", [lead.format(a, b), difference_steps(a, b)], Check("number", a - b))


def product(d: Draw) -> Task:
    a, b = d.integer(1, 10), d.integer(1, 10)
    lead = d.pick(["What is {} x {}?", "What is {} times {}?", "Multiply {} by {}."])
    return Task("product", [lead.format(a, b), f"{a} x {b} = {a * b}."], Check("number", a * b))


def word_problem(d: Draw) -> Task:
    who, things = d.name(), d.pick(COUNTED)
    a, b = d.pair(2, 60)
    if d.chance(0.5):
        story = f"{who} has {a} {things} and finds {b} more."
        steps, result = sum_steps(a, b), a + b
    else:
        while a <= b:
            a, b = d.pair(2, 60)
        story = f"{who} has {a} {things} and gives {b} away."
        steps, result = difference_steps(a, b), a - b
    question = f"{story} How many {things} does {who} have now?"
    answer = f"{steps} {who} has {result} {things}."
    return Task("word problem", [question, answer], Check("number", result))


def comparison(d: Draw) -> Task:
    a, b = d.pair(1, 999)
    while a == b:
        a, b = d.pair(1, 999)
    larger = d.chance(0.5)
    result = max(a, b) if larger else min(a, b)
    word = "larger" if larger else "smaller"
    answer = f"The {word} number is {result}."
    return Task("comparison", [f"Which is {word}, {a} or {b}?", answer], Check("number", result))


def counting(d: Draw) -> Task:
    start = d.number(1, 90)
    if d.chance(0.3):
        after = d.chance(0.5)
        word, result = ("after", start + 1) if after else ("before", start - 1)
        question = f"Which number comes {word} {start}?"
        return Task("counting", [question, f"{result}."], Check("number", result))
    end = start + d.integer(3, 8)
    answer = ", ".join(str(n) for n in range(start, end + 1))
    return Task("counting", [f"Count from {start} to {end}.", answer], Check("exact", answer))
