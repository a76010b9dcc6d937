"""Questions answered from memory: facts, translations, small talk, and what cannot be known."""

from __future__ import annotations

from scripts.train_demo.chat.draw import Check, Draw, Task
from scripts.train_demo.chat.facts import (
    CANNOT_KNOW,
    CAPITALS,
    EXPLANATIONS,
    FACTS,
    LANGUAGES,
    SMALL_TALK,
    TRANSLATIONS,
    UNKNOWABLE,
)
from scripts.train_demo.chat.words import DAYS, MONTHS


def capital(d: Draw) -> Task:
    country = d.pick(list(CAPITALS))
    city = CAPITALS[country]
    if d.chance(0.25):
        question, answer = f"{city} is the capital of which country?", f"{city} is in {country}."
        return Task("capital", [question, answer], Check("contains", country))
    lead = d.pick(["What is the capital of {}?", "Name the capital of {}.", "Capital of {}?"])
    answer = f"The capital of {country} is {city}."
    return Task("capital", [lead.format(country), answer], Check("contains", city))


def fact(d: Draw) -> Task:
    question = d.pick(list(FACTS))
    return Task("fact", [question, FACTS[question]], Check("exact", FACTS[question]))


def calendar(d: Draw) -> Task:
    what, names = d.pick([("day", DAYS), ("month", MONTHS)])
    i = d.integer(0, len(names) - 1)
    word, step = d.pick([("after", 1), ("before", -1)])
    answer = names[(i + step) % len(names)]
    question = f"Which {what} comes {word} {names[i]}?"
    return Task("calendar", [question, f"{answer}."], Check("contains", answer))


def explanation(d: Draw) -> Task:
    question = d.pick(list(EXPLANATIONS))
    answer = EXPLANATIONS[question]
    return Task("explanation", [question, answer], Check("exact", answer))


def translation(d: Draw) -> Task:
    word, language = d.pick(list(TRANSLATIONS)), d.pick(LANGUAGES)
    foreign = TRANSLATIONS[word][language]
    question, answer, value = d.pick(
        [
            (f"What is {word} in {language}?", f"In {language}, {word} is {foreign}.", foreign),
            (f"Translate {word} into {language}.", foreign, foreign),
            (f"What does {foreign} mean in English?", f"It means {word}.", word),
        ]
    )
    return Task("translation", [question, answer], Check("contains", value))


def chinese(d: Draw) -> Task:
    word = d.pick(list(TRANSLATIONS))
    foreign = TRANSLATIONS[word]["Chinese"]
    a, b = d.integer(1, 9), d.integer(1, 9)
    question, answer, value = d.pick(
        [
            (f"{foreign}用英语怎么说?", f"{foreign}是 {word}。", word),
            (f"{word} 是什么意思?", f"{word} 的意思是{foreign}。", foreign),
            (f"{a}加{b}是多少?", f"{a}加{b}是{a + b}。", f"是{a + b}。"),
        ]
    )
    return Task("chinese", [question, answer], Check("contains", value))


def small_talk(d: Draw) -> Task:
    said = d.pick(list(SMALL_TALK))
    return Task("small talk", [said, SMALL_TALK[said]], Check("exact", SMALL_TALK[said]))


def refusal(d: Draw) -> Task:
    return Task("refusal", [d.pick(UNKNOWABLE), CANNOT_KNOW], Check("contains", "cannot know"))
