"""The states of sequences, kept when a sequence ends: memory that was used before is not taken from
the system anew, which may cost more than all else that a token does to it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from colibri.kvcache.sequence import SequenceState


@dataclass(eq=False)
class _Lent:
    state: SequenceState
    fresh: Any  # its checkpoint of length 0
    tokens: int

    @property
    def room(self) -> int:
        """Positions whose memory it has or will have taken."""
        return max(self.state.touched, self.tokens)


class StatePool:
    """States that together never take the memory of more than `context` positions.

    Each has room for all of them; what it touches is what it takes. new_state(capacity) makes one.
    `overhead`: positions that a state costs whatever its length; there is room for one's beside the
    context.
    """

    def __init__(
        self, new_state: Callable[[int], SequenceState], context: int, overhead: int = 0
    ) -> None:
        self._new_state = new_state
        self._context = context
        self._overhead = overhead
        self._lent: list[_Lent] = []
        self._idle: list[_Lent] = []

    def has_room(self, tokens: int) -> bool:
        return tokens <= self._free()

    def take(self, tokens: int) -> SequenceState:
        """An empty state for a sequence of so many positions; has_room() was asked."""
        free = self._free()
        # One that has touched much more than is asked for would keep other sequences out.
        most = min(free, max(tokens, self._context // 4))
        fitting = [idle for idle in self._idle if idle.state.touched <= most]
        if fitting:
            lent = max(fitting, key=lambda idle: idle.state.touched)
            self._idle.remove(lent)
        else:
            state = self._new_state(self._context)
            lent = _Lent(state, state.checkpoint(), tokens)
        lent.tokens = tokens
        self._lent.append(lent)
        self._keep_within(free - lent.room)
        return lent.state

    def _free(self) -> int:
        """Positions that one more state may take."""
        return self._context - sum(lent.room + self._overhead for lent in self._lent)

    def give_back(self, state: SequenceState) -> None:
        (lent,) = [lent for lent in self._lent if lent.state is state]
        self._lent.remove(lent)
        state.restore(lent.fresh)
        self._idle.append(lent)

    def _keep_within(self, free: int) -> None:
        """Let go of idle states, those longest idle first, that there is no room for."""
        while sum(idle.state.touched + self._overhead for idle in self._idle) > free:
            self._idle.pop(0)
