"""The config of GLM-5.3-Flash (model_type glm5_next): what its text_config must be."""

from collections.abc import Mapping
from typing import Any

import msgspec

from colibri.errors import ConfigError
from colibri.kernels.delta import MAX_TAPS, DeltaShape
from colibri.kernels.hyper import MAX_STREAMS
from colibri.models.config import in_range, one_of, parse_config, refuse_unless
from colibri.models.glm import GlmConfig

LINEAR = "linear_attention"
# Hub configs say the first, transformers writes the second.
FULL = ("full_attention", "indexed_attention")


class LinearAttention(msgspec.Struct, frozen=True, kw_only=True):
    """KDA's own dimensions."""

    num_heads: int
    head_dim: int
    short_conv_kernel_size: int
    gate_lower_bound: float | None = None
    safe_gate: bool = True
    kda_layers: list[int] | None = None

    @property
    def width(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def lower(self) -> float | None:
        """Of the decay's logarithm: -5 where a gate that is said to be bounded gives none."""
        if self.gate_lower_bound is None and self.safe_gate:
            return -5.0
        return self.gate_lower_bound

    @property
    def shape(self) -> DeltaShape:
        heads, dim = self.num_heads, self.head_dim
        return DeltaShape(heads, heads, dim, dim, self.short_conv_kernel_size)

    def check(self) -> None:
        name = "linear_attn_config."
        in_range(name + "num_heads", self.num_heads, 1, 1 << 16)
        in_range(name + "head_dim", self.head_dim, 1, 1 << 16)
        in_range(name + "short_conv_kernel_size", self.short_conv_kernel_size, 1, MAX_TAPS)
        if self.gate_lower_bound is not None:
            in_range(name + "gate_lower_bound", self.gate_lower_bound, -100, 0)


class Glm5NextConfig(GlmConfig, frozen=True, kw_only=True):
    index_kpool: int
    linear_attn_config: LinearAttention
    hc_mult: int
    hc_eps: float
    hc_sinkhorn_iters: int
    swiglu_limit: float
    mla_use_nope: bool = True
    index_kpool_compress: bool = True
    index_kpool_always_select_tail: bool = True

    def linear(self, layer: int) -> bool:
        """Whether a layer's mixer is KDA; the others, and draft layers, have full attention."""
        if layer >= self.num_hidden_layers:
            return False
        if self.layer_types is not None:
            return self.layer_types[layer] == LINEAR
        if self.linear_attn_config.kda_layers is not None:
            return layer in self.linear_attn_config.kda_layers
        return layer % 4 != 3

    def check(self) -> None:
        super().check()
        refuse_unless(self.qk_rope_head_dim == 0, "qk_rope_head_dim", self.qk_rope_head_dim, "0")
        for switch in ("mla_use_nope", "index_kpool_compress", "index_kpool_always_select_tail"):
            refuse_unless(getattr(self, switch), switch, False, "true")
        in_range("index_head_dim", self.index_head_dim, 1, 4096)
        in_range("index_kpool", self.index_kpool, 1, min(self.index_topk, 1 << 10))
        in_range("hc_mult", self.hc_mult, 1, MAX_STREAMS)
        in_range("hc_sinkhorn_iters", self.hc_sinkhorn_iters, 1, 1 << 10)
        in_range("hc_eps", self.hc_eps, 0, 1)
        in_range("swiglu_limit", self.swiglu_limit, 1e-6, 1e30)
        self.linear_attn_config.check()
        if self.layer_types is not None:
            one_of("layer_types", self.layer_types, (LINEAR, *FULL))
        for layer in range(self.num_hidden_layers):
            own = self.linear(layer) or self.indexed(layer)
            refuse_unless(own, "indexer_types", f"shared at layer {layer}", "'full' in all")


def parse(config: Mapping[str, Any]) -> Glm5NextConfig:
    """The text model's part; the vision tower's is not looked at."""
    text = config.get("text_config")
    if not isinstance(text, dict):
        raise ConfigError("config.json: text_config is missing; a glm5_next config holds one")
    outer = {key: config[key] for key in ("model_type", "tie_word_embeddings") if key in config}
    return parse_config({**text, **outer}, Glm5NextConfig)
