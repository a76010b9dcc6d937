"""Short stories about an asked-for hero, verses and letters."""

from __future__ import annotations

from scripts.train_demo.chat.draw import Check, Draw, Task, article
from scripts.train_demo.chat.words import ADJECTIVES, DAYS, PLACES, TREASURES

_TROUBLES = [
    ("lost {thing} near the {place}", "looked under every stone", "it lay in the sun all along"),
    ("heard a cry from the {place}", "ran to help", "a child was stuck and soon free"),
    ("wanted {thing} but had no coin", "worked for a whole week", "the {friend} gave it gladly"),
    ("met a sad {friend} by the {place}", "sat down and listened", "they laughed before dark"),
    ("could not cross the {place}", "built a bridge of twigs", "everyone could cross from then"),
    ("was afraid of the dark {place}", "took {thing} and went in", "there was only an echo"),
]
_ENDS = [
    "From that day on they were friends.",
    "And that was a good day.",
    "So patience won in the end.",
    "Nobody ever forgot it.",
]


def story(d: Draw) -> Task:
    hero, adjective, name = d.hero(), d.pick(ADJECTIVES), d.name()
    named = d.chance(0.5)
    place, thing, friend = d.pick(PLACES), article(d.pick(TREASURES)), d.hero()
    trouble, deed, luck = (
        part.format(thing=thing, place=place, friend=friend) for part in d.pick(_TROUBLES)
    )
    asked = f"{article(adjective)} {hero}" + (f" named {name}" if named else "")
    called = f" called {name}" if named else ""
    who = name if named else f"the {hero}"
    who_first = who[0].upper() + who[1:]
    text = (
        f"Once there was {article(adjective)} {hero}{called}. One {d.pick(DAYS)}, {who} {trouble}. "
        f"{who_first} {deed}, and {luck}. {d.pick(_ENDS)}"
    )
    lead = d.pick(["Tell me a story about {}.", "Write a story about {}.", "A tale of {}, please."])
    check = Check("story", [hero, name] if named else [hero])
    return Task("story", [lead.format(asked), text], check)


_RHYMES = [
    ("the light is low, the air is still", "a lantern climbs the quiet hill"),
    ("the rain has come, the rain has gone", "the little brook goes singing on"),
    ("the wind runs over field and tree", "and brings the smell of salt and sea"),
    ("the stars come out above the town", "and one by one look kindly down"),
    ("the bread is warm, the door is wide", "so leave the winter night outside"),
]


def poem(d: Draw) -> Task:
    subject = d.noun()
    first, second = d.random.sample(_RHYMES, 2)
    lines = [f"A song about {article(subject)}:", *first, *second]
    question = d.pick(["Write a poem about {}.", "A short verse about {}, please."])
    answer = "\n".join(line[0].upper() + line[1:] for line in lines)
    return Task("poem", [question.format(article(subject)), answer], Check("contains", subject))


def letter(d: Draw) -> Task:
    to, sender, day, place = d.name(), d.name(), d.pick(DAYS), d.pick(PLACES)
    question = f"Write a note to {to}: meet on {day} at the {place}. Sign it {sender}."
    answer = f"Dear {to},\n\nlet us meet on {day} at the {place}.\n\nYours, {sender}"
    return Task("letter", [question, answer], Check("exact", answer))
