"""The config of Qwen3.5-MoE, Qwen3.6 and Qwen3.8 (model_type qwen3_5_moe): a text model's own, or
the text_config of one with vision."""

from collections.abc import Mapping
from typing import Any

from colibri.errors import ConfigError
from colibri.kernels.delta import MAX_TAPS, DeltaShape
from colibri.models.config import in_range, one_of, parse_config, refuse_unless
from colibri.models.gqa import GQAConfig

FULL, LINEAR = "full_attention", "linear_attention"
_OUTER = ("model_type", "tie_word_embeddings")


class Qwen35MoeConfig(GQAConfig, frozen=True, kw_only=True):
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_expert_intermediate_size: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int
    full_attention_interval: int = 4
    partial_rotary_factor: float | None = None
    attn_output_gate: bool = True
    mtp_num_hidden_layers: int = 0
    nested: bool = False  # set by parse: the checkpoint has vision, and longer names for the text

    @property
    def root(self) -> str:
        """What the names of all tensors but the head's begin with."""
        return "model.language_model" if self.nested else "model"

    @property
    def rotary_dim(self) -> int:
        given = (self.rope_parameters or {}).get("partial_rotary_factor")
        factor = self.partial_rotary_factor if given is None else given
        if factor is None:
            return self.attention_dim
        if not isinstance(factor, int | float) or isinstance(factor, bool) or not 0 < factor <= 1:
            raise ConfigError(
                f"config.json: partial_rotary_factor = {factor!r} is not a number in (0, 1]"
            )
        return int(self.attention_dim * factor)

    @property
    def delta(self) -> DeltaShape:
        return DeltaShape(
            self.linear_num_value_heads,
            self.linear_num_key_heads,
            self.linear_key_head_dim,
            self.linear_value_head_dim,
            self.linear_conv_kernel_dim,
        )

    def linear(self, layer: int) -> bool:
        """Whether a layer's mixer is gated DeltaNet; the others have softmax attention."""
        if self.layer_types is not None:
            return self.layer_types[layer] == LINEAR
        return (layer + 1) % self.full_attention_interval != 0

    def check(self) -> None:
        super().check()
        refuse_unless(self.attn_output_gate, "attn_output_gate", False, "true")
        refuse_unless(not self.attention_bias, "attention_bias", True, "false")
        if self.layer_types is not None:
            one_of("layer_types", self.layer_types, (FULL, LINEAR))
        in_range("full_attention_interval", self.full_attention_interval, 1, 1 << 16)
        in_range("num_experts", self.num_experts, 1, 1 << 16)
        in_range("num_experts_per_tok", self.num_experts_per_tok, 1, self.num_experts)
        for field in (
            "moe_intermediate_size", "shared_expert_intermediate_size", "linear_num_key_heads",
            "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
        ):  # fmt: skip
            in_range(field, getattr(self, field), 1, 1 << 20)
        in_range("linear_conv_kernel_dim", self.linear_conv_kernel_dim, 1, MAX_TAPS)
        in_range("mtp_num_hidden_layers", self.mtp_num_hidden_layers, 0, 8)
        refuse_unless(
            self.linear_num_value_heads % self.linear_num_key_heads == 0,
            "linear_num_key_heads",
            self.linear_num_key_heads,
            f"a divisor of linear_num_value_heads ({self.linear_num_value_heads})",
        )
        if self.rotary_dim % 2 or self.rotary_dim < 2:
            raise ConfigError(
                f"config.json: partial_rotary_factor rotates {self.rotary_dim} of "
                f"{self.attention_dim} dimensions; it must be an even number from 2 on"
            )


def parse(config: Mapping[str, Any]) -> Qwen35MoeConfig:
    """The text model's part; the vision tower's is not looked at."""
    text = config.get("text_config")
    if text is None:
        return parse_config({**config, "nested": False}, Qwen35MoeConfig)
    if not isinstance(text, dict):
        raise ConfigError("config.json: text_config is not an object")
    outer = {key: config[key] for key in _OUTER if key in config}
    return parse_config({**text, **outer, "nested": True}, Qwen35MoeConfig)
