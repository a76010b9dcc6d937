"""Experts read on a guess, before the call that may want them."""

from collections.abc import Collection, Mapping, Sequence

from colibri.experts.reads.job import Job
from colibri.experts.reads.loader import Loader
from colibri.experts.stage import LayerStage
from colibri.experts.traffic import Traffic


class ReadsAhead:
    """The reads begun on hints that no call has claimed yet: waiting, in flight or just finished.

    A guess takes a free slot, or that of an expert nobody uses or guesses; it keeps the slot until
    it lands, fails or is withdrawn before it began.
    """

    def __init__(self, stages: Mapping[int, LayerStage], loader: Loader, traffic: Traffic) -> None:
        self._stages = stages
        self._loader = loader
        self._traffic = traffic
        self._jobs: dict[int, dict[int, Job]] = {}  # by layer and expert; no layer without jobs

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def of(self, layer: int) -> Collection[int]:
        """The experts of a layer that are on their way unclaimed."""
        return self._jobs.get(layer, ())

    def beside(self, stage: LayerStage) -> int:
        """How many are on their way unclaimed into slots of the layer's pool."""
        sharing = (n for n in self._jobs if self._stages[n].cache.pool is stage.cache.pool)
        return sum(len(self._jobs[n]) for n in sharing)

    def begin(self, stage: LayerStage, experts: Sequence[int], keep: Collection[int] = ()) -> None:
        """Begins to read what is absent, as far as there are slots; first the first ones.

        Neither these experts nor those to keep are evicted for it. Earlier guesses of the layer
        that have not begun and are not repeated are withdrawn.
        """
        repeated = frozenset(experts)
        self._withdraw(stage, [e for e in self.of(stage.source.layer) if e not in repeated])
        keep = repeated.union(keep)
        for expert in experts:
            if stage.cache.has_slot(expert):
                continue
            slot = stage.cache.reserve_on_a_guess(expert, keep)
            if slot is None:
                return
            job = stage.job(expert, slot, ahead=True)
            self._jobs.setdefault(job.layer, {})[expert] = job
            self._loader.submit(job)

    def claim(self, stage: LayerStage, experts: Collection[int]) -> set[int]:
        """The layer's call has come: those of its experts that are on their way are demanded now.

        Returns them. The layer's other guesses are withdrawn unless they have begun.
        """
        layer = stage.source.layer
        claimed = [e for e in experts if e in self.of(layer)]
        for expert in claimed:
            self._loader.promote(self._remove(layer, expert))
        self._withdraw(stage, self.of(layer))
        return set(claimed)

    def expire(self) -> None:
        """Withdraws every guess that has not begun."""
        for layer in list(self._jobs):
            self._withdraw(self._stages[layer], self._jobs[layer])

    def collect(self) -> None:
        """Takes in what has landed so far. Not while a call waits for demanded reads."""
        for job in self._loader.collect(0):
            self.arrived(job)

    def arrived(self, job: Job) -> None:
        """An unclaimed read has ended. A failed one is forgotten: a demand would report it."""
        self._remove(job.layer, job.expert)
        self._traffic.count(job)
        stage = self._stages[job.layer]
        if job.error is None:
            stage.land_on_a_guess(job)
        else:
            stage.cache.drop(job.expert)

    def forget(self) -> None:
        """After the loader was quiesced and the slots were recovered."""
        self._jobs.clear()

    def _withdraw(self, stage: LayerStage, experts: Collection[int]) -> None:
        jobs = self._jobs.get(stage.source.layer, {})
        for job in self._loader.withdraw([jobs[expert] for expert in experts]):
            self._remove(job.layer, job.expert)
            stage.cache.drop(job.expert)
            self._traffic.prefetch_expired += 1

    def _remove(self, layer: int, expert: int) -> Job:
        jobs = self._jobs[layer]
        job = jobs.pop(expert)
        if not jobs:
            del self._jobs[layer]
        return job
