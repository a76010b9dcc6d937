"""The states of sequences: lent while they run, kept with their tokens when they end, so that a
prompt which begins alike need not be computed again.

Kept states have what room the running ones leave, and go when it is needed, those least recently
used first. Memory that was used before is used again: fresh pages may cost more than all else that
a token does to a state.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kvcache.held import Held
from colibri.kvcache.sequence import SequenceState

I32 = NDArray[np.int32]
_WORTH_A_COPY = 64  # tokens that are copied in less time than one is computed


@dataclass(frozen=True)
class Match:
    """What a prompt can go on from: `length` tokens of `source`; `shared` of them are the same."""

    source: Held
    length: int
    shared: int


class StatePool:
    """All states together use at most `context` + `beside` positions; states in use at most
    `context`.

    Each has room for the whole context, and takes the memory of what it touches.
    new_state(capacity) makes one. `overhead`: positions that a state costs whatever its length,
    half of it a checkpoint; there is room for one's besides the context. keep: whether states keep
    their tokens.
    """

    def __init__(
        self,
        new_state: Callable[[int], SequenceState],
        context: int,
        overhead: int = 0,
        *,
        beside: int = 0,
        keep: bool = True,
    ) -> None:
        self.keeps = keep
        self._new_state = new_state
        self._context = context
        self._overhead = overhead
        self._mark = -(-overhead // 2)
        self._all = context + beside + overhead
        self._lent: list[Held] = []
        self._idle: list[Held] = []
        self._uses = 0

    @property
    def kept_tokens(self) -> int:
        """In idle states. May be asked from any thread."""
        return sum(len(held) for held in list(self._idle))

    def has_room(self, tokens: int) -> bool:
        return tokens <= self._free()

    def match(self, prompt: I32, most: int, best: int | None = None) -> Match | None:
        """The state from which the most of the prompt, up to `most` tokens, need not be computed.

        best: also the log-probabilities of these tokens, with so many alternatives, must be known.
        """
        found: Match | None = None
        for held in self._idle + self._lent:
            shared = held.common(prompt)
            limit = min(shared, most)
            if best is not None:
                known = len(held.logprobs) if held.best >= best else 0
                limit = min(limit, shared - 1, known)
            length = held.usable(limit) if limit > 0 else 0
            # Of several the last one used: beside it a copy has the most room.
            best_yet = (0, 0) if found is None else (found.length, found.source.used)
            if length > 0 and (length, held.used) > best_yet:
                found = Match(held, length, shared)
        return found

    def take(self, tokens: int, match: Match | None = None, surely: int | None = None) -> Held:
        """A state for a sequence of so many positions, has_room() was asked: empty, or as far as
        the match goes. surely: of them, those that will be used, if not all."""
        surely = tokens if surely is None else surely
        if match is not None and self._may_take_over(match, tokens):
            held = match.source
            self._idle.remove(held)
            held.rewind(match.length, match.shared)
        elif match is not None and self._fits_beside(match):
            held = self._empty(tokens, surely, match.source)
            held.copy_from(match.source, match.length, match.shared)
        else:
            held = self._empty(tokens, surely, None)
        held.tokens = tokens
        self._use(held)
        self._lent.append(held)
        self.make_room()
        return held

    def give_back(self, held: Held, *, keep: bool = True) -> None:
        """keep: its tokens may be of use to others."""
        self._lent.remove(held)
        usable = held.usable(len(held)) if keep and self.keeps else 0
        held.rewind(usable, usable)
        if usable == 0:
            held.clear()
        held.tokens = 0
        self._use(held)
        self._idle.append(held)

    def make_room(self) -> bool:
        """Let go of what is kept as far as what runs needs the room: empty states, then what was
        least recently used, checkpoints before tokens. False: there is none for the checkpoints of
        the next step."""
        while self._taken() > self._all:
            if not self._let_go():
                return False
        return True

    def _let_go(self) -> bool:
        """Of one thing; False: there is nothing left."""
        idle = min(self._idle, key=lambda held: (len(held) > 0, held.used), default=None)
        if idle is not None and len(idle.marks) <= 1:
            self._idle.remove(idle)
            return True
        holders = [idle] if idle else sorted(self._lent, key=lambda held: held.used)
        for held in holders:
            if held.marks:
                held.thin()
                return True
        return False

    def _use(self, held: Held) -> None:
        self._uses += 1
        held.used = self._uses

    def _free(self) -> int:
        """Positions that one more state may take."""
        return self._context - sum(held.room + self._overhead for held in self._lent)

    def _taken(self) -> int:
        return sum(self._cost(held) for held in self._lent + self._idle)

    def _cost(self, held: Held) -> int:
        return held.taken + self._overhead + self._mark * held.checkpoints

    def _may_take_over(self, match: Match, tokens: int) -> bool:
        """Whether to go on in the very state: what is lost by it is not worth a copy, or there is
        no room for two; and it has not taken so much that others were kept out."""
        held = match.source
        if held not in self._idle or held.state.touched > self._most(tokens):
            return False
        lost = len(held) - match.length
        return lost * _WORTH_A_COPY <= match.length or not self._fits_beside(match)

    def _fits_beside(self, match: Match) -> bool:
        """Whether a copy has room beside its source and all that was used after it."""
        gone = (held for held in self._idle if held.used < match.source.used)
        taken = self._taken() - sum(self._cost(held) for held in gone)
        return taken + match.length + self._overhead <= self._all

    def _most(self, tokens: int) -> int:
        """Positions that a state for so many may have touched: one that has touched much more than
        is asked for would keep other sequences out."""
        return min(self._free(), max(tokens, self._context // 4))

    def _empty(self, tokens: int, surely: int, spare: Held | None) -> Held:
        """An empty state, never `spare`: one that is, one that must go anyway, or a new one."""
        fitting = [held for held in self._reusable(tokens, surely, spare) if held is not spare]
        if not fitting:
            return Held(self._new_state(self._context))
        held = max(fitting, key=lambda held: held.state.touched)
        self._idle.remove(held)
        held.clear()
        return held

    def _reusable(self, tokens: int, surely: int, spare: Held | None) -> Iterator[Held]:
        most = self._most(tokens)
        fitting = [held for held in self._idle if held.state.touched <= most]
        yield from (held for held in fitting if len(held) == 0)
        if self._taken() + surely + self._overhead > self._all:
            oldest = min((h for h in self._idle if h is not spare), key=_last_use, default=None)
            if oldest in fitting:
                yield oldest


def _last_use(held: Held) -> int:
    return held.used
