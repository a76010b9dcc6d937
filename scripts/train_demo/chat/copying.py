"""Tasks whose answer stands in the prompt: names, words, lists, short texts."""

from __future__ import annotations

from collections.abc import Callable

from scripts.train_demo.chat.draw import Check, Draw, Task, article
from scripts.train_demo.chat.words import COLOURS, COUNTED, LETTERS, NOUNS, ORDINALS, PLACES


def name(d: Draw) -> Task:
    n = d.name()
    said = d.pick(["My name is {}.", "I am {}.", "Hi, I'm {}!", "Please call me {}.", "{} here."])
    reply = d.pick(["Nice to meet you, {}!", "Hello, {}! What can I do for you?", "Welcome, {}!"])
    messages = [said.format(n), reply.format(n)]
    if d.chance(0.7):
        question, answer = d.pick(
            [
                ("What is my name?", "Your name is {}."),
                ("Who am I?", "You are {}."),
                ("Do you still know my name?", "Yes, you are {}."),
                ("Say my name.", "{}"),
            ]
        )
        messages += [question, answer.format(n)]
    return Task("name", messages, Check("contains", n))


def reading(d: Draw) -> Task:
    n, friend, thing = d.name(), d.name(), d.noun()
    place, colour, age = d.pick(PLACES), d.pick(COLOURS), d.number()
    facts = [
        (f"{n} is {age} years old.", f"How old is {n}?"),
        (f"{n} lives by the {place}.", f"Where does {n} live?"),
        (f"{n} owns {article(colour)} {thing}.", f"What does {n} own?"),
        (f"The {thing} is {colour}.", f"What colour is the {thing}?"),
        (f"{n} writes to {friend}.", f"Who does {n} write to?"),
        (f"{friend} sits beside {n}.", f"Who sits beside {n}?"),
    ]
    chosen = d.random.sample(facts, d.integer(2, 3))
    answer, question = d.pick(chosen)
    lead = d.pick(["", "", "Here is a text. ", "Read this. "])
    text = lead + " ".join(f for f, _ in chosen)
    return Task("reading", [f"{text} {question}", answer], Check("exact", answer))


def _copied(d: Draw) -> tuple[str, str]:
    text = " ".join(d.nouns(d.integer(1, 5)))
    what = d.integer(0, 4)
    if what == 0:
        text = str(d.integer(100, 99999))
    elif what == 1:
        text = d.made_up(d.integer(2, 3))
    elif what == 2:
        text = f"{d.name()} saw {article(d.noun())} near the {d.pick(PLACES)}."
    lead = d.pick(["Repeat: {}", "Repeat after me: {}", "Copy this: {}", "Say {}", "Write {}"])
    return lead.format(text), text


def repeat(d: Draw) -> Task:
    question, text = _copied(d)
    return Task("copy", [question, text], Check("exact", text))


def remember(d: Draw) -> Task:
    word, count, things = d.noun(), d.number(), d.pick(COUNTED)
    if d.chance(0.5):
        told = [f"Remember the word {word}.", f"I will remember {word}."]
        asked = [d.pick(["Which word was it?", "What was the word?"]), f"The word was {word}."]
        return Task("copy", told + asked, Check("contains", word))
    told = [f"I have {count} {things}.", f"So you have {count} {things}."]
    asked = [f"How many {things} do I have?", f"You have {count} {things}."]
    return Task("copy", told + asked, Check("contains", f"{count} {things}"))


def long_copy(d: Draw) -> Task:
    """Many predictable tokens an example: what makes copying form early in training."""
    makers: list[Callable[[], str]] = [
        lambda: d.pick(NOUNS),
        d.made_up,
        lambda: d.pick(LETTERS),
        lambda: str(d.integer(0, 999)),
        lambda: d.pick([d.made_up(), d.pick(COLOURS), d.pick(NOUNS), str(d.integer(0, 99))]),
    ]
    make = d.pick(makers)
    text = d.pick([" ", " ", ", "]).join(make() for _ in range(d.integer(6, 30)))
    return Task("long copy", [d.pick(["Repeat: ", "Copy this: ", "Say: "]) + text, text])


def _position(d: Draw, items: list[str], joined: str) -> tuple[str, str]:
    i = d.integer(0, len(items) - 1)
    which = d.pick([ORDINALS[i], "last"]) if i == len(items) - 1 else ORDINALS[i]
    return f"Which is the {which} of these: {joined}?", items[i]


def listing(d: Draw) -> Task:
    numbers = d.chance(0.25)
    count = d.integer(3, 5)
    items = [str(d.integer(1, 99)) for _ in range(count)] if numbers else d.nouns(count)
    joined = ", ".join(items)
    question, answer = d.pick(
        [
            (f"Reverse this list: {joined}", ", ".join(reversed(items))),
            (f"Number this list: {joined}", "\n".join(f"{i}. {w}" for i, w in enumerate(items, 1))),
            (f"Make bullet points: {joined}", "\n".join(f"- {w}" for w in items)),
            (f"How long is this list: {joined}?", f"It has {count} items."),
            (f"Write each on a line: {joined}", "\n".join(items)),
            _position(d, items, joined),
            _position(d, items, joined),
        ]
    )
    return Task("list", [question, answer], Check("exact", answer))


def spelling(d: Draw) -> Task:
    word = d.pick([w for w in NOUNS if len(w) < 7])
    question, answer = d.pick(
        [
            (f"Spell {word}.", "-".join(word)),
            (f"How do you spell {word}?", "-".join(word)),
            (f"How many letters has {word}?", f"The word {word} has {len(word)} letters."),
            (f"What is the first letter of {word}?", f"It is {word[0]}."),
            (f"Write {word} in capital letters.", word.upper()),
            (f"Write {word} backwards.", f"{'-'.join(word)} becomes {word[::-1]}."),
        ]
    )
    return Task("spelling", [question, answer], Check("exact", answer))
