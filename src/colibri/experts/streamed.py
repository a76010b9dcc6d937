"""Experts streamed from disk through a cache in RAM, on the CPU.

One call: the union of the rows' experts; those resident are multiplied while the others
are read, these as they land; rounds when the union is larger than the cache. Whatever the order of
events, a row's expert outputs are added in ascending expert id: few pairs are written to a buffer
and combined at the end (decode), many are accumulated by a walk in that order (prefill).
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colibri.config.choices import AutoOnOff, CacheBits, CacheScope
from colibri.container.layerexperts import LayerExperts
from colibri.errors import ConfigError
from colibri.experts.ahead import ReadsAhead
from colibri.experts.arithmetic import Multiplier
from colibri.experts.base import DriveStats, ExpertStats, Floats, Guess, Ids, ReadFunction
from colibri.experts.cache.narrow import buffers_of, kept
from colibri.experts.cache.pools import make_arena, make_caches, resize, shrink, slots_by_layer
from colibri.experts.readbench import DEFAULT_READERS, Choice, choose, room
from colibri.experts.reads.loader import Loader
from colibri.experts.reads.sources import Drive
from colibri.experts.stage import LayerStage
from colibri.experts.staging import Staging, settle
from colibri.experts.traffic import Traffic
from colibri.experts.usage.pins import CachedLayer
from colibri.experts.walks import in_any_order, in_ascending_order, is_walked_in_order
from colibri.experts.weights import Weights, weighted_sources
from colibri.kernels.moe import ExpertTable, experts_of, moe_all

Note = Callable[[int, Ids], None]


def _no_note(layer: int, topk_ids: Ids) -> None:
    pass


class StreamedExperts:
    """The ExpertExecutor of a machine without other tiers. For one thread at a time.

    layers: the source of each layer's experts. slots_per_layer: capacity, at least 1 each; more
    than a layer's experts is no more. In the global scope layers whose slots have one size have
    theirs in common, at least 1 together. planes: int8 activation planes of packed layers.
    readers: reader threads; "auto" measures how many, unless all experts fit.
    policy, scope: what is given up for what, as in colibri.experts.cache.policies and CacheScope.
    cache_bits: what is kept of each expert; at 3 reads go through buffers, as narrow says.
    pair_buffer_bytes: up to this size outputs are kept pair by pair.
    verify: check each record's checksum as it lands. direct: as for ExpertFiles.
    drives: where several are read from, as open_drives finds them. disk_weights: one for each.
    cancelled: asked while waiting. note: told of each call's layer and topk_ids once it is done.
    read: as for Loader. Raises ConfigError, CapacityError.
    """

    def __init__(
        self,
        layers: Mapping[int, LayerExperts],
        *,
        slots_per_layer: Mapping[int, int] | int,
        planes: int = 2,
        readers: int | Literal["auto"] = DEFAULT_READERS,
        policy: str = "lru",
        scope: CacheScope = "layer",
        cache_bits: CacheBits = "stored",
        pair_buffer_bytes: int = 64_000_000,
        verify: bool = False,
        direct: AutoOnOff = "auto",
        drives: Sequence[Drive] = (),
        disk_weights: Weights = "auto",
        cancelled: Callable[[], bool] = lambda: False,
        read: ReadFunction | None = None,
        note: Note = _no_note,
    ) -> None:
        slots = {n: kept(layer, cache_bits) for n, layer in layers.items()}
        capacities = slots_by_layer(slots, slots_per_layer, scope)
        sizes = {n: layer.slot_bytes for n, layer in slots.items()}
        self._scope = scope
        self._arena = make_arena(sizes, capacities)
        experts = {n: layer.num_experts for n, layer in layers.items()}
        caches = make_caches(experts, sizes, capacities, policy, scope, self._arena.take)
        self._stages = {
            n: LayerStage(layers[n], slots[n], cache, self._arena, verify, planes)
            for n, cache in caches.items()
        }
        buffers = buffers_of(self._arena, layers, readers, cache_bits)
        chosen = Choice(DEFAULT_READERS if readers == "auto" else readers, direct)
        if readers == "auto" and any(capacities[n] < layers[n].num_experts for n in layers):
            chosen = choose(*room(self._stages.values(), self._arena, buffers), read, direct)
        self.readers = chosen.readers
        self.drives = tuple(drives)
        sources = None
        if drives:
            _, places = room(self._stages.values(), self._arena, buffers)
            sources = weighted_sources(drives, layers, disk_weights, places, read, chosen)
        self._loader = Loader(chosen.readers, read, chosen.direct, sources, buffers)
        self._traffic = Traffic()
        self._ahead = ReadsAhead(self._stages, self._loader, self._traffic)
        self._unsettled = False  # broken off, or just now at work
        self._hinted = False
        self._running: LayerStage | None = None
        self._cancelled = cancelled
        self._note = self._own_note = note
        self._listener: Note | None = None
        self._held: dict[int, frozenset[int]] = dict.fromkeys(layers, frozenset())
        self._pair_buffer_bytes = pair_buffer_bytes
        self._pair_buffer: Floats = np.empty((0, 0), np.float32)

    def run(
        self,
        layer: int,
        x: Floats,
        topk_ids: Ids,
        topk_weights: Floats,
        meanwhile: Callable[[], None] = lambda: None,
        limit: float = math.inf,
    ) -> Floats:
        """As ExpertExecutor.run. Raises ReadError, ContainerError, Cancelled; then works again."""
        stage = self._stage(layer)
        if topk_ids.size == 0:
            meanwhile()
            return np.zeros_like(x)
        self._settle()
        if self._ahead or stage.guesses:
            self._meet_guesses(stage, topk_ids)
        if stage.cache.has_all(topk_ids):
            y = self._all_at_hand(stage, x, topk_ids, topk_weights, meanwhile, limit)
        else:
            experts = experts_of(topk_ids, stage.source.num_experts)
            multiplier = Multiplier(stage, topk_ids, topk_weights, x, limit)
            outputs = self._outputs(topk_ids.size, x.shape[1])
            y = self._stream(stage, multiplier, experts, outputs, meanwhile)
        self._note(layer, topk_ids)
        return y

    def table(self, layer: int) -> ExpertTable:
        """As LocalExecutor.table."""
        return self._stage(layer).table

    @property
    def settled(self) -> bool:
        """As LocalExecutor.settled."""
        return not (self._unsettled or self._hinted or self._ahead or not self._stages)

    def ran(self, layer: int, topk_ids: Ids, named: int) -> None:
        """As LocalExecutor.ran."""
        cache = self._stages[layer].cache
        cache.demand_resident(topk_ids)
        cache.hits += named
        self._note(layer, topk_ids)

    def listen(self, note: Note | None) -> None:
        """Beside the constructor's `note` this one is told too, until another or None is given.
        From any thread; told by the one that runs the model."""
        self._listener = note
        self._tell()

    @contextmanager
    def apart(self, note: Note) -> Iterator[None]:
        """Meanwhile this one is told in the place of the constructor's, which learns nothing of
        what runs. On the thread that runs the model."""
        own, self._own_note = self._own_note, note
        self._tell()
        try:
            yield
        finally:
            self._own_note = own
            self._tell()

    def _tell(self) -> None:
        own, listener = self._own_note, self._listener
        if listener is None:
            self._note = own
            return

        def both(layer: int, topk_ids: Ids) -> None:
            own(layer, topk_ids)
            listener(layer, topk_ids)

        self._note = both

    def complete(self, layer: int) -> bool:
        return self._stage(layer).cache.complete

    def hint(
        self, layer: int, expert_ids: Sequence[int], read: int, keep: Collection[int] = ()
    ) -> Guess:
        """As ExpertExecutor.hint. A hint for the very layer that is being run comes too late."""
        stage = self._stage(layer)
        if stage is self._running:
            return Guess({})
        self._hinted = True
        with self._at_work():
            guess = stage.guess(expert_ids)
            self._ahead.begin(stage, expert_ids[:read], {*expert_ids, *keep})
            return guess

    def expire(self) -> None:
        if not self._hinted:
            return
        self._hinted = False
        with self._at_work():
            self._ahead.expire()
            for stage in self._stages.values():
                stage.guesses.clear()

    def stats(self) -> ExpertStats:
        caches = [stage.cache for stage in self._stages.values()]
        counted = vars(self._traffic).copy()
        counted["prefetch_useful"] += sum(cache.guesses_useful for cache in caches)
        return ExpertStats(
            hits=sum(cache.hits for cache in caches),
            misses=sum(cache.misses for cache in caches),
            evictions=sum(cache.evictions for cache in caches),
            direct=self._loader.direct,
            prefetch_wasted_bytes=sum(cache.guesses_wasted_bytes for cache in caches),
            drives=tuple(DriveStats(str(d.directory), d.nbytes, d.failures) for d in self.drives),
            **counted,
        )

    @property
    def wait_seconds(self) -> float:
        """Of stats(), without gathering the rest."""
        return self._traffic.wait_seconds

    @property
    def read_seconds(self) -> float:
        """The same."""
        return self._traffic.read_seconds

    @property
    def bytes_read(self) -> int:
        """The same; from any thread."""
        return self._traffic.bytes_read

    def layer_counts(self) -> dict[int, tuple[int, int]]:
        """Hits and misses of each layer since the last reset."""
        return {n: (s.cache.hits, s.cache.misses) for n, s in self._stages.items()}

    @property
    def nbytes(self) -> int:
        """The most memory that slots and buffers can take."""
        return self._arena.nbytes

    def at_hand(self, layer: int) -> NDArray[np.bool_]:
        """[experts], whether each is resident now. Not to be changed."""
        return self._stage(layer).cache.resident

    def resident(self, layer: int) -> set[int]:
        return set(np.flatnonzero(self._stage(layer).cache.resident).tolist())

    def cached_layers(self) -> dict[int, CachedLayer]:
        """The cache as pinning sees it."""
        return {
            n: CachedLayer(s.cache.pool.share, s.source.num_experts, s.kept.slot_bytes)
            for n, s in self._stages.items()
        }

    def hold(self, pins: Mapping[int, Collection[int]]) -> None:
        """From now on these experts, by layer, and no others, keep their slots once they have them.

        Costs no read: an absent one is held when a call has brought it in. Between calls only.
        """
        for layer, stage in self._stages.items():
            wanted = frozenset(pins.get(layer, ()))
            for expert in self._held[layer] - wanted:
                stage.cache.unhold(expert)
            for expert in wanted:
                stage.cache.hold(expert)
            self._held[layer] = wanted

    def held(self, layer: int) -> frozenset[int]:
        """What hold() asked for last."""
        return self._held[layer]

    def reset(self) -> None:
        """Sets the counters to zero."""
        vars(self._traffic).update(vars(Traffic()))
        for drive in self.drives:
            drive.nbytes = 0
        for stage in self._stages.values():
            stage.cache.zero_counters()

    def drop_all(self) -> None:
        """Cold again: no expert resident. Between calls only."""
        self._settle(anyway=True)
        for stage in self._stages.values():
            stage.cache.clear()

    def resize(self, slots_per_layer: Mapping[int, int] | int) -> None:
        """New capacities; what a layer gives up goes back to the system. Between calls only."""
        self._settle(anyway=True)
        slots = {layer: stage.kept for layer, stage in self._stages.items()}
        capacities = slots_by_layer(slots, slots_per_layer, self._scope)
        resize(self._arena, slots, {n: s.cache for n, s in self._stages.items()}, capacities)

    def shrink(self, nbytes: int) -> int:
        """Gives at least so much resident memory back to the system, as far as each layer keeps a
        slot; how much it was. Between calls only."""
        self._settle(anyway=True)
        slots = {layer: stage.kept for layer, stage in self._stages.items()}
        caches = {n: stage.cache for n, stage in self._stages.items()}
        return shrink(self._arena, slots, caches, nbytes)

    @property
    def slots(self) -> int:
        """Of all layers together."""
        return sum(p.capacity for p in {stage.cache.pool for stage in self._stages.values()})

    def close(self) -> None:
        """Ends the readers, closes the files, gives the memory back. Nothing runs afterwards."""
        self._loader.close()
        self._stages.clear()
        self._arena.close()

    def _stage(self, layer: int) -> LayerStage:
        stage = self._stages.get(layer)
        if stage is None:
            raise ConfigError(f"layer {layer} has no streamed experts, or they were closed")
        return stage

    def _settle(self, anyway: bool = False) -> None:
        if self._unsettled or anyway:
            self._unsettled = True
            settle(self._stages, self._loader, self._ahead, self._traffic)
            self._unsettled = False

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """What is broken off inside is settled by whatever comes next."""
        if self._running is None:
            self._settle()
        outer, self._unsettled = self._unsettled, True
        yield
        self._unsettled = outer

    def _meet_guesses(self, stage: LayerStage, experts: Ids) -> None:
        """The call of a layer has come: takes in what has landed, compares what was guessed."""
        with self._at_work():
            self._ahead.collect()
            self._traffic.guesses += stage.compare(set(experts.ravel().tolist()))
            if self._ahead.of(stage.source.layer) and stage.cache.has_all(experts):
                self._ahead.claim(stage, ())

    def _all_at_hand(
        self,
        stage: LayerStage,
        x: Floats,
        topk_ids: Ids,
        topk_weights: Floats,
        meanwhile: Callable[[], None],
        limit: float,
    ) -> Floats:
        """The usual case of decode: one native call, and as little as possible around it."""
        self._unsettled, self._running = True, stage
        try:
            evictable = stage.cache.demand_resident(topk_ids)
            stage.cache.use(evictable)
            meanwhile()
            y, named = moe_all(stage.table, topk_ids, topk_weights, x, limit)
            stage.cache.release(evictable)
            stage.cache.hits += named
            self._unsettled = False
            return y
        finally:
            self._running = None
            self._settle()

    def _stream(
        self,
        stage: LayerStage,
        multiplier: Multiplier,
        experts: list[int],
        outputs: Floats | None,
        meanwhile: Callable[[], None],
    ) -> Floats:
        self._unsettled, self._running = True, stage
        try:
            staging = Staging(
                stage,
                self._loader,
                self._ahead,
                experts,
                self._traffic,
                self._cancelled,
                in_order=outputs is None,
            )
            staging.start_reads()
            meanwhile()
            if outputs is None:
                y = in_ascending_order(staging, multiplier, experts)
            else:
                y = in_any_order(staging, multiplier, outputs)
            self._unsettled = False
            return y
        finally:
            self._running = None
            self._settle()

    def _outputs(self, pairs: int, hidden: int) -> Floats | None:
        """Room for an output a pair, if within bounds. Kept: fresh pages cost page faults."""
        if is_walked_in_order(pairs, hidden, self._pair_buffer_bytes):
            return None
        if len(self._pair_buffer) < pairs or self._pair_buffer.shape[1] != hidden:
            self._pair_buffer = np.empty((pairs, hidden), np.float32)
        return self._pair_buffer
