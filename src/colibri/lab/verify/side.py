"""One of two models, walked layer by layer: never more than one layer of it in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from colibri.container.layerexperts import LayerExperts
from colibri.container.reader import Container
from colibri.container.trunk import load_matrix
from colibri.errors import ContainerError
from colibri.experts.base import Floats, Guess, Ids
from colibri.experts.streamed import StreamedExperts
from colibri.formats.packed import BLOCK_ROWS
from colibri.kernels.layer import step_rows
from colibri.kvcache.base import LayerCache
from colibri.kvcache.sequence import SequenceState
from colibri.lab.verify.trunk import rows_of
from colibri.layers.linear import Linear
from colibri.layers.step import Step
from colibri.models.loader import TrunkLoader
from colibri.models.registry import family_for

F32 = NDArray[np.float32]

_PLANES = 2
_SLOT_BYTES = 512 << 20  # for the experts of one layer
_HEAD = "lm_head.weight"
_VOCABULARY_ROWS = 512 * BLOCK_ROWS


class LayerByLayer:
    """An ExpertExecutor that holds the experts of the layer it was last asked for."""

    def __init__(self, layers: Mapping[int, LayerExperts]) -> None:
        self._layers = layers
        self._layer: int | None = None
        self._experts: StreamedExperts | None = None

    def run(
        self,
        layer: int,
        x: Floats,
        topk_ids: Ids,
        topk_weights: Floats,
        meanwhile: Callable[[], None] = lambda: None,
        limit: float = math.inf,
    ) -> Floats:
        if self._experts is None or layer != self._layer:
            self.close()
            source = self._layers[layer]
            slots = max(1, _SLOT_BYTES // source.slot_bytes)
            self._layer = layer
            self._experts = StreamedExperts({layer: source}, slots_per_layer=slots, planes=_PLANES)
        return self._experts.run(layer, x, topk_ids, topk_weights, meanwhile, limit)

    def complete(self, layer: int) -> bool:
        return True  # nobody looks ahead here

    def hint(
        self, layer: int, expert_ids: Sequence[int], read: int, keep: Collection[int] = ()
    ) -> Guess:
        return Guess({})

    def expire(self) -> None:
        pass

    def close(self) -> None:
        if self._experts is not None:
            self._experts.close()
            self._experts = None


class Side:
    """A model with the hidden states of some prompts, layer after layer.

    Matrices at the precision in which they are stored: what is compared is what was converted.
    """

    def __init__(self, container: Container, prompts: Sequence[Sequence[int]]) -> None:
        family = family_for(container.config)
        self.config = family.parse(container.config)
        self._container = container
        self._prompts = prompts
        self._experts = LayerByLayer(container.expert_layers())
        bits = container.stored_bits or "source"
        load = TrunkLoader(container, bits, container.stored_embed_bits or 32, _PLANES)
        self._assembly = family.assemble(self.config, load, self._experts)
        self._embedding = _embedding(container)
        self._step: Step | None = None
        self._residual = self._assembly.residual
        self._x = self._residual.begin(self._embedded([i for ids in prompts for i in ids]))
        self._y: F32 | None = None

    @property
    def hidden(self) -> F32:
        """The residual [rows, ..., hidden] after the layers so far."""
        return self._x if self._y is None else self._x + self._y

    def advance(self, layer: int) -> None:
        """Through one more layer, in order."""
        loaded = self._assembly.layer(layer)
        caches = [loaded.mixer.new_cache(len(ids)) for ids in self._prompts]
        step = self._step = self._step or self._first_step(caches)
        for rows, cache in zip(step.sequences, caches, strict=True):
            # A layer finds its own by number, and there is but one.
            rows.state.layers = (cache,) * self.config.num_hidden_layers
            rows.state.kernels = [cache.kernel] * self.config.num_hidden_layers
        assert step.rope is not None
        stops = [rows.stop for rows in step.sequences]
        kernels = [rows.state.kernels for rows in step.sequences]
        step.kernel_rows = step_rows(step.positions, stops, *step.rope, kernels)
        self._y = loaded(self._x, self._y, step)

    def _first_step(self, caches: Sequence[LayerCache]) -> Step:
        """All layers take one step: the indexer's choice goes from one to the next."""
        states = [SequenceState([cache]) for cache in caches]
        step = Step.of(list(zip(states, self._prompts, strict=True)))
        step.rope = self._assembly.rope.tables(step.positions)
        step.selection = [None] * len(self._prompts)
        return step

    @property
    def vocabulary_pieces(self) -> int:
        """In how many the logits are computed."""
        return -(-self.config.vocab_size // _VOCABULARY_ROWS)

    def logits(self, step: Callable[[], None] = lambda: None) -> F32:
        """After the last layer: [rows, vocabulary]. step: called after each piece of it."""
        hidden = self._residual.end(self._x, self._y, self._assembly.norm())
        name = self._embedding if self.config.tie_word_embeddings else _HEAD
        bits = self._container.info(name).stored_bits or "source"
        size = self.config.vocab_size
        logits = np.empty((len(hidden), size), np.float32)
        for start in range(0, size, _VOCABULARY_ROWS):
            rows = slice(start, min(start + _VOCABULARY_ROWS, size))
            matrix = load_matrix(self._container, name, bits, rows=rows)
            logits[:, rows] = Linear(matrix, _PLANES)(hidden)
            step()
        return logits

    def close(self) -> None:
        self._experts.close()
        self._container.files.close()

    def _embedded(self, ids: Sequence[int]) -> F32:
        """Row by row: the whole may be larger than a layer."""
        rows = {}
        for i in set(ids):
            first = i // BLOCK_ROWS * BLOCK_ROWS
            stop = min(first + BLOCK_ROWS, self.config.vocab_size)
            rows[i] = rows_of(self._container, self._embedding, first, stop)[i - first]
        return np.stack([rows[i] for i in ids])


def _embedding(container: Container) -> str:
    """The name of the vocabulary's rows."""
    for name in container.weights.required:
        match = container.weights.classify(name)
        if match is not None and match.rule.kind == "embedding":
            return name
    raise ContainerError(f"{container.path}: no tensor of this family holds an embedding")
