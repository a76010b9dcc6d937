"""A model made of numbers, for plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from colibri.container.trunkinfo import TrunkInfo
from colibri.container.weights import Rule, WeightMap
from colibri.formats.names import Scheme
from colibri.formats.table import FORMATS
from colibri.kernels.moe import ExpertLayout
from colibri.planner.model import ConvertedLayer


def made_layer(
    slot_bytes: int, experts: int = 16, scheme: Scheme | Literal["bf16"] = "int4-gs64"
) -> ConvertedLayer:
    return ConvertedLayer(experts, slot_bytes, False, ExpertLayout(FORMATS[scheme], 64, 64))


@dataclass(frozen=True)
class Made:
    """Experts as given; a trunk of one matrix a layer, a head and an embedding, in bf16."""

    layers: Mapping[int, ConvertedLayer]
    rows: int = 64
    stored_bits: Literal[4, 8] | None = None
    stored_embed_bits: Literal[4, 8] | None = None
    weights: WeightMap = field(init=False)

    def __post_init__(self) -> None:
        rules = (
            Rule(r"layers\.(?P<layer>\d+)\.w", "trunk", "linear"),
            Rule("head", "trunk", "linear"),
            Rule("embedding", "trunk", "embedding"),
        )
        names = [*(f"layers.{n}.w" for n in self.layers), "head", "embedding"]
        required = dict.fromkeys(names, (self.rows, 64))
        object.__setattr__(self, "weights", WeightMap(rules, {}, required))

    def info(self, name: str) -> TrunkInfo:
        return TrunkInfo(name, "bf16", (self.rows, 64), self.rows * 128)

    def expert_layers(self) -> Mapping[int, ConvertedLayer]:
        return self.layers
