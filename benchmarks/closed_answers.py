"""How often closed answers are right: the embedded model on facts that it was taught.

python -m benchmarks.closed_answers [--questions N]

Each question has four options, the right one and three of the same kind. Counted are the ways to
compare them, at the beginning of the answer and where the model's own answer would name one, with
and without the end of the answer; and its own answer in a chat, which is right if it names the
right option and no other. pmi: less the options' own likelihood without the question.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from colibri import LLM, SamplingParams
from colibri.llm.leadin import BEGINNING, LeadIn, Place
from colibri.llm.scores import Choice
from scripts.train_demo.chat.facts import CAPITALS, TRANSLATIONS
from scripts.train_demo.chat.words import DAYS, MONTHS

END = "<|endoftext|>"
GREEDY = SamplingParams(temperature=0.0, max_tokens=32)

# Options of unequal length: question, right option | wrong ones.
_FACTS = """
How many days has a week? seven|five|ten|twelve
How many months has a year? twelve|ten|seven|twenty-four
How many legs has a spider? eight|six|four|ten
How many sides has a triangle? three|four|five|six
How many minutes has an hour? sixty|twelve|one hundred|thirty
What do bees make? honey|milk|cheese|bread
What do cows eat? grass|meat|fish|honey and nuts
What is frozen water called? ice|steam|a cloud|rain
What colour is grass? green|red|dark blue|white
What colour is snow? white|green|black|bright red
Which planet do we live on? the Earth|Mars|Venus|the Moon
Who wrote Hamlet? William Shakespeare|Goethe|Dante|Jane Austen
What is the opposite of hot? cold|warm|big|very late
What is the opposite of big? small|large|cold|early
What is the opposite of early? late|soon|big|in the morning
What is the plural of mouse? mice|mouses|mouse|meese
What is the plural of child? children|childs|child|childes
What is the past tense of go? went|goed|gone away|goes
What is the past tense of buy? bought|buyed|buys|buying
What is a young dog called? a puppy|a lamb|a kitten|a calf
What is a young sheep called? a lamb|a puppy|a kitten|a foal
What metal does a magnet attract? iron|gold|silver|copper
What gas do plants take in? carbon dioxide|oxygen|nitrogen|hydrogen gas
"""


@dataclass(frozen=True)
class Question:
    kind: str
    text: str
    right: str
    options: tuple[str, ...]


def questions(seed: int = 7) -> list[Question]:
    """The same ones each time."""
    rng, made = random.Random(seed), list[Question]()

    def add(kind: str, text: str, right: str, others: Sequence[str]) -> None:
        wrong = [other for other in dict.fromkeys(others) if other != right]
        options = [right, *rng.sample(wrong, 3)]
        made.append(Question(kind, text, right, tuple(rng.sample(options, 4))))

    for country, city in CAPITALS.items():
        add("capital", f"What is the capital of {country}?", city, [*CAPITALS.values()])
        add("country", f"{city} is the capital of which country?", country, [*CAPITALS])
    for what, names in (("day", DAYS), ("month", MONTHS)):
        for at, name in enumerate(names):
            others = [other for other in names if other != name]
            after, before = names[(at + 1) % len(names)], names[at - 1]
            add("calendar", f"Which {what} comes after {name}?", after, others)
            add("calendar", f"Which {what} comes before {name}?", before, others)
    for language in ("French", "German", "Spanish"):
        words = [forms[language] for forms in TRANSLATIONS.values()]
        for word, forms in TRANSLATIONS.items():
            add("translation", f"What is {word} in {language}?", forms[language], words)
    for line in _FACTS.strip().splitlines():
        text, _, options = line.partition("? ")
        right, *wrong = options.split("|")
        add("fact", f"{text}?", right, wrong)
    return made


def named(text: str, question: Question) -> bool:
    """Whether an answer names the right option and no other."""
    others = [option for option in question.options if option not in question.right]
    return question.right in text and not any(other in text for other in others)


class Judge:
    """Which option each way of comparing finds likeliest."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def chosen(self, question: Question) -> dict[str, str]:
        asked = self._lead_in(question, question.text)
        self._llm.submit(asked)
        places = asked.wait().places
        text = self._choices(question, asked, places)[1]
        best = next(place for place in places if place.lead_in == text)
        nothing = self._lead_in(question, "?")
        found: dict[str, str] = {}
        for where, place in (("beginning", BEGINNING), ("own answer", best)):
            for ending, end in (("", ""), (" + end", END)):
                plain = self._choices(question, asked, [place], end)[0]
                bare = self._choices(question, nothing, [place], end)[0]
                sums = [choice.logprob for choice in plain]
                means = [choice.mean_logprob for choice in plain]
                gains = [
                    one.logprob - other.logprob for one, other in zip(plain, bare, strict=True)
                ]
                for way, scores in (("sum", sums), ("mean", means), ("pmi", gains)):
                    found[f"{where}, {way}{ending}"] = plain[scores.index(max(scores))].option
        return {way: option.removesuffix(END) for way, option in found.items()}

    def _lead_in(self, question: Question, text: str) -> LeadIn:
        asked = [{"role": "user", "content": text}]
        return self._llm.lead_in_request(asked, question.options, thinking=False)

    def _choices(
        self, question: Question, lead_in: LeadIn, places: Sequence[Place], end: str = ""
    ) -> tuple[tuple[Choice, ...], str]:
        options = [option + end for option in question.options]
        lead_in.places = tuple(places)
        scoring = self._llm.score_request(None, options, lead_in=lead_in)
        self._llm.submit(scoring)
        scores = scoring.wait()
        return scores.choices, scores.lead_in


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1000, help="the first so many, shuffled")
    wanted = parser.parse_args().questions
    asked = questions()
    random.Random(1).shuffle(asked)
    right = Counter[tuple[str, str]]()
    kinds = Counter(question.kind for question in asked[:wanted])
    ways: dict[str, None] = {}
    with LLM() as llm:
        judge = Judge(llm)
        for question in asked[:wanted]:
            reply = llm.chat([{"role": "user", "content": question.text}], GREEDY).text
            right["chat", question.kind] += named(reply, question)
            for way, option in judge.chosen(question).items():
                ways[way] = None
                right[way, question.kind] += option == question.right
    print("| way |", " | ".join(f"{kind} ({n})" for kind, n in kinds.items()), "| all |")
    print("|---" * (len(kinds) + 2) + "|")
    for way in ("chat", *ways):
        counts = [right[way, kind] for kind in kinds]
        share = sum(counts) / kinds.total()
        print(f"| {way} |", " | ".join(map(str, counts)), f"| {sum(counts)} ({share:.0%}) |")


if __name__ == "__main__":
    main()
