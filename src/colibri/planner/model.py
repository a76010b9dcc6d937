"""What the plan needs to know of a model: sizes and places, never a weight."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from colibri.container.layerexperts import main_layers
from colibri.container.spec import body_bytes, record_bytes
from colibri.container.trunkinfo import TrunkInfo
from colibri.container.weights import WeightMap
from colibri.experts.cache.narrow import CacheBits, narrow_bytes, narrow_layout
from colibri.kernels.moe import ExpertLayout
from colibri.kernels.packing import Scheme

_ELEMENT_BYTES = {"bf16": 2, "f16": 2, "f32": 4}


class LayerSizes(Protocol):
    """The routed experts of one layer."""

    @property
    def num_experts(self) -> int: ...
    @property
    def slot_bytes(self) -> int: ...
    @property
    def draft(self) -> bool: ...
    @property
    def layout(self) -> ExpertLayout: ...


class Model(Protocol):
    """A Container, or what would become of one."""

    @property
    def weights(self) -> WeightMap: ...
    @property
    def stored_bits(self) -> Literal[4, 8] | None: ...
    @property
    def stored_embed_bits(self) -> Literal[4, 8] | None: ...
    def info(self, name: str) -> TrunkInfo: ...
    def expert_layers(self) -> Mapping[int, LayerSizes]: ...


@dataclass(frozen=True)
class ConvertedLayer:
    num_experts: int
    slot_bytes: int
    draft: bool
    layout: ExpertLayout


@dataclass(frozen=True)
class AsConverted:
    """A model as `coli convert --scheme SCHEME` would leave it."""

    source: Model
    scheme: Scheme

    @property
    def weights(self) -> WeightMap:
        return self.source.weights

    @property
    def stored_bits(self) -> Literal[4, 8] | None:
        return self.source.stored_bits

    @property
    def stored_embed_bits(self) -> Literal[4, 8] | None:
        return self.source.stored_embed_bits

    def info(self, name: str) -> TrunkInfo:
        return self.source.info(name)

    def expert_layers(self) -> Mapping[int, LayerSizes]:
        return {n: self._layer(layer) for n, layer in self.source.expert_layers().items()}

    def _layer(self, layer: LayerSizes) -> ConvertedLayer:
        hidden, inner = layer.layout.hidden, layer.layout.inner
        return ConvertedLayer(
            layer.num_experts,
            record_bytes(self.scheme, hidden, inner),
            layer.draft,
            ExpertLayout(self.scheme, hidden, inner),
        )


def streamed_layers(model: Model) -> dict[int, LayerSizes]:
    """The layers whose experts are cached: draft layers are not run."""
    return main_layers(model.expert_layers())


def kept_layers(layers: Mapping[int, LayerSizes], bits: CacheBits) -> dict[int, LayerSizes]:
    """The layers as the cache keeps them. Raises ConfigError where it cannot at these bits."""
    if bits == "stored":
        return dict(layers)
    return {n: _narrowed(layer) for n, layer in layers.items()}


def _narrowed(layer: LayerSizes) -> LayerSizes:
    layout = narrow_layout(layer.layout)
    return ConvertedLayer(layer.num_experts, narrow_bytes(layout), layer.draft, layout)


def expert_bytes(layout: ExpertLayout) -> int:
    """Weights of one expert, without padding."""
    scheme = layout.scheme
    if scheme == "int3-gs64" or scheme == "int4-gs64" or scheme == "int8-gs64":
        return body_bytes(scheme, layout.hidden, layout.inner)
    return 3 * layout.hidden * layout.inner * _ELEMENT_BYTES[scheme]
