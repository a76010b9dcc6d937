"""Makes a model's atlas: reads prompts of known topics and counts who was selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.config import EngineConfig
from colibri.engine.request import Request
from colibri.errors import Cancelled, CapacityError, ConfigError
from colibri.experts.base import Ids
from colibri.experts.usage.file import Subject
from colibri.lab.atlas import affinity, words
from colibri.lab.atlas.file import Atlas, LayerFacts, TopicFacts
from colibri.lab.atlas.topics import Topic
from colibri.llm import LLM
from colibri.sampling import SamplingParams
from colibri.words import count

I64 = NDArray[np.int64]
Progress = Callable[[int, int], None]  # prompts read, of all
_DECIMALS = 4
_SHOWN = 40  # characters of a token


@dataclass(frozen=True)
class Reading:
    """All prompts, row for row; the first token of each is left out: in many models it is routed
    alike whatever the text."""

    ids: dict[int, Ids]  # by layer [rows, k]
    tokens: I64  # [rows]
    topics: I64  # [rows], numbers


def build(llm: LLM, topics: Sequence[Topic], progress: Progress = lambda done, of: None) -> Atlas:
    """As Build, in one go."""
    made = Build(llm, topics)
    while made.done < made.of:
        made.read_next()
        progress(made.done, made.of)
    return made.atlas()


def obstacle(llm: LLM) -> str:
    """Why no atlas of this model, as it is loaded, can be built; empty: it can."""
    if not llm.plan.experts_per_layer:
        return "this model has no routed experts, so there is nothing to draw"
    if llm.tokenizer is None:
        return "this model has no tokenizer, so it cannot read prompts"
    return approximate(llm.config)


def approximate(config: EngineConfig) -> str:
    """Why these settings are none to build an atlas with; empty: they are."""
    chosen = (config.experts_per_token, config.expert_top_p)
    if config.router == "own" and chosen == (None, None):
        return ""
    return (
        "an atlas is of the model's own routing: leave out --router, --experts-per-token and "
        "--expert-top-p"
    )


class Build:
    """An atlas being made: a prompt at a time, so that other work has its turn between them.

    Raises ConfigError where none can be made, CapacityError for a context that is too short: cut
    prompts would give other numbers.
    """

    def __init__(self, llm: LLM, topics: Sequence[Topic]) -> None:
        if problem := obstacle(llm):
            raise ConfigError(problem)
        self._llm, self._topics = llm, topics
        self._prompts = _encoded(llm, topics)
        self._ids: dict[int, list[Ids]] = {n: [] for n in llm.plan.experts_per_layer}
        self._tokens: list[I64] = []
        self._numbers: list[I64] = []
        self._current: Request | None = None
        self._cancelled = False
        self.done, self.of = 0, len(self._prompts)  # prompts

    def read_next(self) -> None:
        """Raises Cancelled, ReadError."""
        topic, ids = self._prompts[self.done]
        request = self._current = Request(ids, SamplingParams(max_tokens=1, temperature=0))
        if self._cancelled:
            raise Cancelled("the atlas is no longer wanted")
        for layer, chosen in self._llm.routing(request).items():
            self._ids[layer].append(chosen[1:])
        self._tokens.append(np.asarray(ids[1:], np.int64))
        self._numbers.append(np.full(len(ids) - 1, topic, np.int64))
        self.done += 1

    def cancel(self) -> None:
        """From any thread: read_next() ends within a layer."""
        self._cancelled = True
        if self._current is not None:
            self._current.cancel()

    def atlas(self) -> Atlas:
        """Once all is read. Raises ConfigError."""
        joined = {layer: np.concatenate(parts) for layer, parts in self._ids.items()}
        tokens, numbers = np.concatenate(self._tokens), np.concatenate(self._numbers)
        return _drawn(self._llm, self._topics, Reading(joined, tokens, numbers))


def _encoded(llm: LLM, topics: Sequence[Topic]) -> list[tuple[int, list[int]]]:
    """(topic, tokens) of every prompt."""
    assert llm.tokenizer is not None
    encode, room = llm.tokenizer.encode, llm.plan.context - 1
    prompts = [(t, encode(text, True)) for t, topic in enumerate(topics) for text in topic.prompts]
    longest = max(len(ids) for _, ids in prompts)
    if longest > room:
        raise CapacityError(
            f"the longest of the prompts has {count(longest, 'token')}, and the context leaves "
            f"room for {room}: raise --context to {longest + 1} or more"
        )
    return prompts


def _drawn(llm: LLM, topics: Sequence[Topic], reading: Reading) -> Atlas:
    subject = Subject.of_model(llm.container)
    tokens = np.bincount(reading.topics, minlength=len(topics))
    if not tokens.all():
        name = topics[int(tokens.argmin())].name
        raise ConfigError(f"topic {name!a}: its prompts have one token each; give longer ones")
    selections = {n: _selections(reading, n, e, len(topics)) for n, e in subject.experts.items()}
    rows = affinity.shares(np.concatenate(list(selections.values())), tokens)
    places, poles, variance = affinity.project(rows)
    by_layer = np.split(places, np.cumsum(list(subject.experts.values()))[:-1])
    return Atlas(
        model=subject.name,
        fingerprint=subject.fingerprint,
        topics=[
            TopicFacts(topic.name, len(topic.prompts), int(count), _rounded(pole))
            for topic, count, pole in zip(topics, tokens, poles, strict=True)
        ],
        layers=[
            LayerFacts(
                layer=n,
                selections=selections[n].tolist(),
                places=[_rounded(place) for place in where],
                tokens=_texts(llm, words.strongest_tokens(reading.ids[n], reading.tokens, experts)),
                neighbours=words.neighbours(reading.ids[n], experts),
            )
            for (n, experts), where in zip(subject.experts.items(), by_layer, strict=True)
        ],
        experts_per_token=llm.plan.experts_per_token,
        smoothing=affinity.SMOOTHING,
        variance=_rounded(variance),
    )


def _selections(reading: Reading, layer: int, experts: int, topics: int) -> I64:
    """[experts, topics]"""
    ids = reading.ids[layer]
    flat = ids.astype(np.int64) * topics + reading.topics[:, None]
    return np.bincount(flat.ravel(), minlength=experts * topics).reshape(experts, topics)


def _texts(llm: LLM, tokens: list[list[int]]) -> list[list[str]]:
    assert llm.tokenizer is not None
    tokenizer = llm.tokenizer
    texts = [[tokenizer.decode([token])[:_SHOWN] for token in some] for some in tokens]
    # A part of a character is no text.
    return [[text for text in some if text and "\ufffd" not in text] for some in texts]


def _rounded(values: NDArray[np.float64]) -> list[float]:
    # + 0.0: no negative zero.
    return [round(float(value), _DECIMALS) + 0.0 for value in values]
