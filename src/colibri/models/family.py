"""What a family is: how to read its config, which tensors it has, how to put them together, how
large it gets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from colibri.container.weights import WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.kernels.attention import INDEX_SCORES
from colibri.layers.decoder import Decoder
from colibri.models.assembly import Assembly
from colibri.models.config import DecoderConfig
from colibri.models.loader import TrunkLoader


@dataclass(frozen=True)
class Sizes:
    """Bytes that depend on what runs rather than on the weights."""

    state_bytes: int  # a position, over all layers
    activation_bytes: int  # a row of a step, at its widest point
    pair_bytes: int  # a row's expert outputs, one by one
    experts_per_token: int = 1  # of a layer with routed experts
    sequence_bytes: int = 0  # state of a sequence whatever its length: recurrences, convolutions
    index_pool: int = 0  # positions that an indexer's key stands for; 0: there is no indexer

    def choosing(self, experts_per_token: int) -> "Sizes":
        """At most, where that many experts a token are chosen."""
        more = max(1, -(-experts_per_token // self.experts_per_token))
        return replace(
            self,
            activation_bytes=self.activation_bytes * more,
            pair_bytes=self.pair_bytes * experts_per_token // self.experts_per_token,
            experts_per_token=experts_per_token,
        )

    def index_bytes(self, rows: int, context: int) -> int:
        """Scores of an indexer at work, for so many rows at the end of such a context."""
        if not self.index_pool:
            return 0
        keys = context // self.index_pool
        return 4 * max(keys, min(rows * keys, INDEX_SCORES))

    @property
    def sequence_positions(self) -> int:
        """Positions whose state takes as much as what a sequence has whatever its length."""
        return -(-self.sequence_bytes // max(1, self.state_bytes))


def moe_scratch_bytes(hidden: int, experts_per_token: int, inner: int) -> int:
    """What the kernel quantises of a row: input and inner activations, two planes with scales."""
    return 2 * (hidden + experts_per_token * inner) * 9 // 8


@dataclass(frozen=True)
class Family:
    """`parse` gives the family's own Config, which the others take; `assemble` alone needs
    weights."""

    name: str
    parse: Callable[[Mapping[str, Any]], DecoderConfig]
    weights: Callable[[Any], WeightMap]
    sizes: Callable[[Any], Sizes]
    assemble: Callable[[Any, TrunkLoader, ExpertExecutor], Assembly]

    def weights_of(self, config: Mapping[str, Any]) -> WeightMap:
        return self.weights(self.parse(config))

    def build(self, config: Any, load: TrunkLoader, experts: ExpertExecutor) -> Decoder:
        """The whole model, loaded."""
        return self.assemble(config, load, experts).decoder()
