"""What the plan needs to know of a model: sizes and places, never a weight."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from colibri.config.choices import CacheBits
from colibri.container.layerexperts import main_layers
from colibri.container.spec import body_bytes, record_bytes
from colibri.container.trunkinfo import TrunkInfo
from colibri.container.weights import WeightMap
from colibri.experts.cache.narrow import narrow_bytes, narrow_layout
from colibri.formats.packed import PackedFormat
from colibri.kernels.moe import ExpertLayout


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
    format: PackedFormat

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
            record_bytes(self.format, hidden, inner),
            layer.draft,
            ExpertLayout(self.format, hidden, inner),
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
    format, sizes = layout.format, (layout.hidden, layout.inner)
    if isinstance(format, PackedFormat):
        return body_bytes(format, *sizes)
    return 3 * format.nbytes(*sizes)
