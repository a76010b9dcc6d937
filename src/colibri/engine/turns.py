"""Who takes part in a step: every answer by a token, and prompts in turn by a chunk."""

from collections.abc import Sequence as Ids
from dataclasses import dataclass, replace

from colibri.engine.pace import Pace
from colibri.engine.sequence import Sequence
from colibri.kvcache.pool import StatePool


@dataclass(frozen=True)
class Part:
    """What a step computes of one sequence. marks: positions inside, where its state is kept."""

    sequence: Sequence
    ids: Ids[int]
    marks: Ids[int] = ()


class Turns:
    """rows: that a step has memory for; chunk: of them, those that a prompt may have."""

    def __init__(self, rows: int, chunk: int) -> None:
        self.pace = Pace(chunk)
        self._rows = rows
        self._chunk = chunk
        self._step = 0

    def enter(self, sequence: Sequence) -> None:
        """Behind all that wait for their next turn."""
        sequence.served = self._step

    def parts(self, running: Ids[Sequence]) -> list[Part]:
        """Answers first. The prompt that waited longest has the chunk; what it leaves is the next
        one's, so that short prompts go together."""
        self._step += 1
        parts = [Part(s, s.next_ids(1)) for s in running if not s.reading]
        left = min(self._chunk, self._rows - len(parts))
        if parts:
            left = min(left, self.pace.chunk)
        for sequence in sorted((s for s in running if s.reading), key=lambda s: s.served):
            if left <= 0:
                break
            ids = sequence.next_ids(left)
            sequence.served = self._step
            left -= len(ids)
            parts.append(Part(sequence, ids, sequence.marks_before(len(ids))))
        return parts


def with_room(parts: list[Part], states: StatePool) -> list[Part]:
    """The parts, once what they take is taken from what is kept; checkpoints need not be."""
    for part in parts:
        held, marks = part.sequence.held, len(part.marks)
        held.reach(held.state.length + len(part.ids), marks + bool(part.sequence.marks))
    if states.make_room():
        return parts
    for part in parts:
        part.sequence.marks.clear()
    return [replace(part, marks=()) for part in parts]
