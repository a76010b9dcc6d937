"""What the next token of one answer may be, and where that leaves it.

An answer passes through stages: text that is free until a mark has been written (reasoning, or text
before a tool call), and text that a grammar binds. Where several stages may begin, all are followed
at once, and those that a token does not fit are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colibri.errors import GrammarError
from colibri.grammar.messages import explained

if TYPE_CHECKING:
    from llguidance import LLMatcher

    from colibri.grammar.compiler import Grammar
    from colibri.grammar.vocabulary import Vocabulary

F32 = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Free:
    """Any text. `marks`: text at whose end other stages begin, by name; what follows it in the same
    token is theirs, and where it does not fit them the text stays free. may_end: whether the answer
    may end here."""

    marks: Mapping[bytes, tuple[str, ...]]
    may_end: bool


@dataclass(frozen=True)
class Bound:
    """Text that the grammar allows. `then`: the stages after it, which begin once the grammar
    allows nothing more; empty where the answer ends."""

    grammar: Grammar
    then: tuple[str, ...] = ()


Stages = Mapping[str, Free | Bound]


@dataclass(frozen=True)
class _FreeState:
    stage: Free
    tail: bytes = b""  # what may be the beginning of a mark


@dataclass(frozen=True, eq=False)
class _BoundState:
    stage: Bound
    matcher: LLMatcher


_State = _FreeState | _BoundState


@dataclass(frozen=True)
class _Step:
    """What `rollback` restores."""

    before: tuple[_State, ...]
    moved: tuple[LLMatcher, ...] = ()
    ended: bool = False


@dataclass(eq=False)
class Matcher:
    """`first`: names of the stages in which the answer may begin. end_ids: tokens that end an
    answer; allowed only where a stage may end (none, where they are to be ignored)."""

    stages: Stages
    first: tuple[str, ...]
    vocabulary: Vocabulary
    end_ids: frozenset[int]
    _states: tuple[_State, ...] = field(init=False, default=())
    _history: list[_Step] = field(init=False, default_factory=list)
    _ended: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._states = self._begin(self.first)

    def mask(self, scores: F32) -> F32:
        """scores [vocab_size] with -inf for what may not come next; itself where all may."""
        allowed = self.allowed(len(scores))
        if allowed is None:
            return scores
        if not allowed.any():
            raise GrammarError(
                "the structure cannot go on from here: no token of the model's vocabulary spells it"
            )
        masked = np.full(len(scores), -np.inf, np.float32)
        np.copyto(masked, scores, where=allowed)
        return masked

    def allowed(self, vocab_size: int) -> Bools | None:
        """Of every token whether it may come next; None where all may."""
        free = [s.stage for s in self._states if isinstance(s, _FreeState)]
        if any(stage.may_end for stage in free):
            return None
        allowed = np.full(vocab_size, bool(free))
        may_end = False
        for state in self._states:
            if isinstance(state, _BoundState):
                bits = self._bits(state.matcher)
                size = min(vocab_size, self.vocabulary.size)
                allowed[:size] |= bits[:size]
                may_end |= bool(bits[self.vocabulary.end_id]) and not state.stage.then
        allowed[[i for i in self.end_ids if i < vocab_size]] = may_end
        return allowed

    def accept(self, token: int) -> None:
        """The token was chosen: GrammarError if it may not come here."""
        if token in self.end_ids:
            self._history.append(_Step(self._states, ended=True))
            self._ended = True
            return
        before = self._states
        moved: list[LLMatcher] = []
        after: list[_State] = []
        for state in before:
            if isinstance(state, _FreeState):
                after += self._read(state, self.vocabulary.bytes_of(token))
            elif state.matcher.try_consume_tokens([token]) == 1:
                moved.append(state.matcher)
                after += self._onwards(state)
        self._history.append(_Step(before, tuple(moved)))
        self._states = tuple(after)
        if not after:
            self.rollback(1)
            raise GrammarError(f"token {token} does not fit the structure")

    @property
    def tokens(self) -> int:
        """How many were accepted."""
        return len(self._history)

    def rollback(self, tokens: int) -> None:
        """Takes the last tokens back."""
        if tokens > len(self._history):
            raise GrammarError(f"{tokens} tokens to take back, {len(self._history)} accepted")
        for _ in range(tokens):
            step = self._history.pop()
            for matcher in step.moved:
                matcher.rollback(1)
            self._states, self._ended = step.before, False

    def forced(self) -> tuple[int, ...]:
        """The tokens that must come next, as far as that is certain: for a drafter. They are the
        tokenizer's own spelling; another spelling of the same text may be allowed too."""
        if len(self._states) != 1 or not isinstance(state := self._states[0], _BoundState):
            return ()
        ids = [i for i in state.matcher.compute_ff_tokens() if i != self.vocabulary.end_id]
        return tuple(ids) if state.matcher.validate_tokens(ids) == len(ids) else ()

    @property
    def finished(self) -> bool:
        """The answer is whole, and nothing may follow but its end."""
        return self._ended or all(
            isinstance(s, _BoundState) and not s.stage.then and s.matcher.is_stopped()
            for s in self._states
        )

    def _begin(self, names: Iterable[str]) -> tuple[_State, ...]:
        stages = (self.stages[name] for name in names)
        return tuple(
            _FreeState(s) if isinstance(s, Free) else _BoundState(s, s.grammar.start())
            for s in stages
        )

    def _onwards(self, state: _BoundState) -> Iterable[_State]:
        if state.stage.then and state.matcher.is_stopped():
            return self._begin(state.stage.then)
        return (state,)

    def _read(self, state: _FreeState, data: bytes) -> Iterable[_State]:
        text = state.tail + data
        found = [(at + len(m), m) for m in state.stage.marks if (at := text.find(m)) >= 0]
        if not found:
            longest = max(map(len, state.stage.marks), default=1)
            return (_FreeState(state.stage, text[-(longest - 1) :] if longest > 1 else b""),)
        end, mark = min(found)
        begun = self._begin(state.stage.marks[mark])
        fed = [s for b in begun for s in self._fed(b, text[end:])]
        return fed or self._read(_FreeState(state.stage), text[end:])

    def _fed(self, state: _State, data: bytes) -> Iterable[_State]:
        """After text that came in the token of the mark; a state that it does not fit is gone."""
        if isinstance(state, _FreeState):
            return self._read(state, data)
        if not data:
            return (state,)
        ids = self.vocabulary.spell(data)
        return self._onwards(state) if state.matcher.try_consume_tokens(ids) == len(ids) else ()

    def _bits(self, matcher: LLMatcher) -> Bools:
        mask = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if matcher.is_error():  # the mask of a matcher that failed allows the end
            raise GrammarError(f"structure: {explained(matcher.get_error())}")
        size = self.vocabulary.end_id + 1
        return np.unpackbits(mask, count=size, bitorder="little").view(np.bool_)
