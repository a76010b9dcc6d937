"""Answers written under a structure by a sampler that is given random logits."""

from collections.abc import Mapping
from functools import cache

import numpy as np

from colibri.errors import GrammarError
from colibri.grammar.answers import AnswerForm
from colibri.grammar.grammars import Grammars
from colibri.grammar.matcher import Matcher
from colibri.grammar.structure import Structure
from colibri.llm import embedded_model
from colibri.sampling import Sampler, SamplingParams
from colibri.text.tokenizer import Tokenizer

END = 0
ROWS = 4100  # of the model's head: more than the vocabulary's 4096


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.load(embedded_model())


@cache
def grammars() -> Grammars:
    return Grammars(tokenizer(), frozenset([END]))


def matcher(structure: Structure, *, ignore_eos: bool = False) -> Matcher:
    return grammars().matcher(AnswerForm(structure), ignore_eos=ignore_eos)


def favour(text: str, bonus: float) -> Mapping[int, float]:
    """A bonus for every token that has one of the characters: answers then come to an end."""
    return {
        i: bonus
        for i in range(tokenizer().vocab_size)
        if set(tokenizer().token_bytes(i).decode("utf-8", "ignore")) & set(text)
    }


def write(
    at: Matcher,
    seed: int,
    *,
    limit: int = 400,
    bias: Mapping[int, float] | None = None,
    **how: float,
) -> tuple[list[int], bool]:
    """(tokens without the one that ends it, whether it ended). how: of SamplingParams."""
    params = SamplingParams(seed=seed, logit_bias=dict(bias or {}), **how)  # type: ignore[arg-type]
    sampler, random, ids = Sampler(params, [1], at), np.random.default_rng(seed), []
    while len(ids) < limit:
        logits = random.normal(0, 3, ROWS).astype(np.float32)
        token = sampler.sample(logits, 1 + len(ids), ids).token
        if token == END:
            return ids, True
        ids.append(token)
        if sampler.finished:
            return ids, True
    return ids, False


def fits(structure: Structure, text: str, *, cut: int = 0) -> bool:
    """Whether the whole text may be the answer. cut: spelt in pieces of so many characters."""
    at = matcher(structure)
    pieces = [text[i : i + cut] for i in range(0, len(text), cut)] if cut else [text]
    try:
        for piece in pieces:
            for token in tokenizer().encode(piece, add_special_tokens=False):
                at.accept(token)
    except GrammarError:
        return False
    allowed = at.allowed(ROWS)
    return allowed is not None and bool(allowed[END])


def text_of(ids: list[int]) -> str:
    return tokenizer().decode(ids)
