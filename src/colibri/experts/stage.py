"""One layer's experts as the kernels see them: addresses and multipliers, by expert."""

from collections.abc import Collection, Sequence
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from colibri.container.layerexperts import LayerExperts
from colibri.container.spec import TAIL_BYTES, parse_tail, verify_record
from colibri.experts.base import Guess, Guesses, Multipliers
from colibri.experts.cache.arena import Arena
from colibri.experts.cache.layer import LayerCache
from colibri.experts.cache.narrow import Kept, narrow_into
from colibri.experts.reads.job import Job
from colibri.kernels.moe import ExpertTable

_MULTIPLIERS = Struct("=3f")  # a row of the table


class LayerStage:
    """The cache of one layer with the table that the kernels read, valid where resident."""

    def __init__(
        self,
        source: LayerExperts,
        kept: Kept,
        cache: LayerCache,
        arena: Arena,
        verify: bool,
        planes: int,
    ) -> None:
        self.source = source
        self.kept = kept
        self.cache = cache
        self._parts: NDArray[np.uint64] = np.zeros(
            (source.num_experts, kept.layout.num_parts), np.uint64
        )
        self._row = Struct(f"={kept.layout.num_parts}Q")
        self._multipliers: NDArray[np.float32] = np.ones((source.num_experts, 3), np.float32)
        self.table = ExpertTable(
            kept.layout, self._parts, self._multipliers, planes, cache.resident
        )
        self.guesses: list[Guess] = []  # until the next call
        self._arena = arena
        self._verify = verify

    def job(self, expert: int, slot: int, ahead: bool = False) -> Job:
        """The read of an expert into its slot."""
        spans = self.source.reads(expert)

        view = self._arena.view(slot)

        def finish(data: memoryview) -> Multipliers:
            found = self._check(expert, data, f"{spans[0].file} at byte {spans[0].offset}")
            if self.kept.layout == self.source.layout:
                return found
            return narrow_into(view, data, self.source.layout, found)

        return Job(self.source.layer, expert, spans, view, finish, ahead, demanded=not ahead)

    def land(self, job: Job) -> None:
        """The read succeeded: the kernels may use the expert, which is in use now."""
        self._set_tables(job)
        self.cache.landed(job.expert)

    def land_on_a_guess(self, job: Job) -> None:
        """The same for a read that nobody has demanded: not in use, first to go."""
        self._set_tables(job)
        self.cache.landed_on_a_guess(job.expert, job.nbytes)

    def guess(self, experts: Sequence[int]) -> Guess:
        is_proven = self.cache.is_proven
        guess = Guess({e: place for place, e in enumerate(experts) if not is_proven(e)})
        self.guesses.append(guess)
        return guess

    def compare(self, experts: Collection[int]) -> Guesses:
        """The call has come: tells all guesses how they compared; the counts of the last one."""
        counts = Guesses()
        missing = sum(not self.cache.is_proven(e) for e in experts) if self.guesses else 0
        for guess in self.guesses:
            guess.missing = missing
            guess.right = frozenset(guess.absent.keys() & experts)
            counts = Guesses(missing, len(guess.absent), len(guess.right))
        self.guesses.clear()
        return counts

    def _set_tables(self, job: Job) -> None:
        address = self._arena.address(self.cache.slot(job.expert))
        addresses = [address + offset for offset in self.kept.parts(job.expert)]
        self._row.pack_into(self._parts.data, self._row.size * job.expert, *addresses)
        _MULTIPLIERS.pack_into(
            self._multipliers.data, _MULTIPLIERS.size * job.expert, *job.multipliers
        )

    def _check(self, expert: int, slot: memoryview, where: str) -> Multipliers:
        if not self.source.record:
            return (1.0, 1.0, 1.0)
        if self._verify:
            return verify_record(slot, self.source.layer, expert, where).multipliers
        return parse_tail(slot[-TAIL_BYTES:], self.source.layer, expert, where).multipliers
