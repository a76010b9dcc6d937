"""Makes a model's atlas: reads prompts of known topics and counts who was selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.errors import ConfigError
from colibri.experts.base import Ids
from colibri.experts.usage.file import Subject
from colibri.lab.atlas import affinity, words
from colibri.lab.atlas.file import Atlas, LayerFacts, TopicFacts
from colibri.lab.atlas.topics import Topic
from colibri.llm import LLM
from colibri.sampling import SamplingParams

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
    """The model must keep no prefixes (prefix_cache 0): what is not computed is not routed.
    Raises ConfigError, CapacityError, TokenizerError."""
    subject = Subject.of_model(llm.container)
    if not subject.experts:
        raise ConfigError("this model has no routed experts, so there is nothing to draw")
    reading = _read(llm, topics, progress)
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


def _read(llm: LLM, topics: Sequence[Topic], progress: Progress) -> Reading:
    if llm.tokenizer is None:
        raise ConfigError("this model has no tokenizer, so it cannot read prompts")
    prompts = [(t, text) for t, topic in enumerate(topics) for text in topic.prompts]
    ids: dict[int, list[Ids]] = {n: [] for n in llm.plan.experts_per_layer}
    tokens: list[I64] = []
    numbers: list[I64] = []
    for done, (topic, text) in enumerate(prompts):
        prompt = llm.tokenizer.encode(text, add_special_tokens=True)[: llm.plan.context - 1]
        for layer, chosen in _routed(llm, prompt).items():
            ids[layer].append(chosen[1:])
        tokens.append(np.asarray(prompt[1:], np.int64))
        numbers.append(np.full(len(prompt) - 1, topic, np.int64))
        progress(done + 1, len(prompts))
    joined = {layer: np.concatenate(parts) for layer, parts in ids.items()}
    return Reading(joined, np.concatenate(tokens), np.concatenate(numbers))


def _routed(llm: LLM, prompt: Sequence[int]) -> dict[int, Ids]:
    """By layer the experts of every token [tokens, k]."""
    heard: dict[int, list[Ids]] = {n: [] for n in llm.plan.experts_per_layer}
    llm.experts.listen(lambda layer, topk_ids: heard[layer].append(topk_ids.copy()))
    try:
        llm.generate(list(prompt), SamplingParams(max_tokens=1, temperature=0))
    finally:
        llm.experts.listen(None)
    found = {layer: np.concatenate(calls) for layer, calls in heard.items()}
    if any(len(chosen) != len(prompt) for chosen in found.values()):
        raise ConfigError("some of the prompt was not computed: build with --prefix-cache 0")
    return found


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
