"""A sequence's state with the tokens that are in it, so that another prompt may go on from them."""

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colibri.kvcache.sequence import SequenceState

I32 = NDArray[np.int32]
MOST_MARKS = 8  # checkpoints of one state that cannot be cut anywhere


class Held:
    """tokens: positions that it was lent for. used: when it last was, by the pool's count.

    marks: checkpoints by length, where the state is not trimmable. logprobs: what was found of its
    tokens after the first, as far as they were asked for, with so many of the best as `best` says;
    the pool does not look into them.
    """

    def __init__(self, state: SequenceState) -> None:
        self.state = state
        self.tokens = 0
        self.used = 0
        self.best = -1
        self.logprobs: list[Any] = []
        self.marks: dict[int, tuple[Any, ...]] = {}
        self._fresh = state.checkpoint()
        self._ids = array("i")
        self._reach = 0
        self._coming = 0

    def __len__(self) -> int:
        """Tokens that are known to be in the state."""
        return len(self._ids)

    @property
    def room(self) -> int:
        """Positions whose memory it has or will have taken."""
        return max(self.state.touched, self.tokens)

    @property
    def taken(self) -> int:
        """Positions whose memory it has taken, or takes in the next step."""
        return max(self.state.touched, self._reach)

    @property
    def checkpoints(self) -> int:
        """That there are, or will be after the next step."""
        return len(self.marks) + self._coming

    def reach(self, length: int, marks: int = 0) -> None:
        """The next step makes it so long, and leaves so many checkpoints."""
        self._reach, self._coming = length, marks

    def extend(self, ids: Sequence[int]) -> None:
        """A step has put these into the state."""
        self._ids.extend(ids)
        self._coming = 0

    def keep(self, position: int) -> None:
        """A checkpoint where a step was asked for one, or where it ended."""
        at_end = position == self.state.length
        self.marks[position] = (
            self.state.checkpoint() if at_end else self.state.checkpoint_at(position)
        )
        while len(self.marks) > MOST_MARKS:
            self.thin()

    def thin(self) -> None:
        """Let go of the checkpoint whose loss costs the fewest tokens to compute again."""
        places = [0, *sorted(self.marks)]
        _, least = min((b - a, b) for a, b in pairwise(places))
        del self.marks[least]

    def common(self, prompt: I32) -> int:
        """How many tokens the prompt and this one begin with alike."""
        n = min(len(self._ids), len(prompt))
        return common(np.frombuffer(self._ids, np.int32, n), prompt[:n]) if n else 0

    def usable(self, length: int) -> int:
        """The longest beginning of at most `length` tokens that the state can go back to."""
        if self.state.trimmable:
            return length
        places = [*self.marks, 0]
        if self.state.length == len(self):
            places.append(len(self))
        return max(place for place in places if place <= length)

    def checkpoint(self, length: int) -> tuple[Any, ...]:
        """Of a usable length."""
        if length == 0:
            return self._fresh
        if length == self.state.length:
            return self.state.checkpoint()
        if length in self.marks:
            return self.marks[length]
        return tuple(layer.checkpoint_at(length) for layer in self.state.layers)

    def rewind(self, length: int, shared: int) -> None:
        """To a usable length, for a sequence that begins with `shared` of these tokens; what came
        after is forgotten."""
        self.state.restore(self.checkpoint(length))
        self.marks = {n: saved for n, saved in self.marks.items() if n <= length}
        del self._ids[length:]
        del self.logprobs[_known(length, shared) :]
        self._reach = self._coming = 0

    def clear(self) -> None:
        self.rewind(0, 0)
        self.best = -1

    def copy_from(self, other: "Held", length: int, shared: int) -> None:
        """Become what the other one would be, rewound."""
        self.clear()
        self.state.copy_from(other.state, other.checkpoint(length))
        self._ids = other._ids[:length]
        self.logprobs, self.best = other.logprobs[: _known(length, shared)], other.best


def _known(length: int, shared: int) -> int:
    """Tokens after the first whose log-probabilities stay: the last one's is of the token that
    follows the state."""
    return max(0, min(length, shared - 1))


def common(a: I32, b: I32) -> int:
    """How many numbers two arrays of one length begin with alike."""
    if len(a) == 0 or a[0] != b[0]:
        return 0
    differing = a != b
    first = int(differing.argmax())
    return first if differing[first] else len(a)
