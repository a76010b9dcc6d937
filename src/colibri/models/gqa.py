"""Assembly that the grouped-query families share: OLMoE, Mixtral, Qwen2-MoE and Qwen3-MoE differ
in switches only."""

import numpy as np
from numpy.typing import NDArray

from colibri.errors import ConfigError
from colibri.layers.attention import Attention
from colibri.layers.linear import Projections
from colibri.layers.rope import Rope, rope_from_config
from colibri.models.config import DecoderConfig
from colibri.models.family import Sizes, moe_scratch_bytes
from colibri.models.loader import TrunkLoader

F32 = NDArray[np.float32]


class GQAConfig(DecoderConfig, frozen=True, kw_only=True):
    sliding_window: int | None = None

    @property
    def attention_dim(self) -> int:
        """One head's width: `head_dim`, or hidden / heads where the config has none."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def rotary_dim(self) -> int:
        """How many of a head's dimensions rope turns, from the first on."""
        return self.attention_dim

    @property
    def window(self) -> int | None:
        return self.sliding_window

    def check(self) -> None:
        super().check()
        if self.head_dim is None and self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"config.json: hidden_size ({self.hidden_size}) is not a multiple of "
                f"num_attention_heads ({self.num_attention_heads}) and there is no head_dim"
            )
        if self.attention_dim % 2 or not 2 <= self.attention_dim <= 4096:
            raise ConfigError(
                f"config.json: head_dim = {self.attention_dim} must be even and in 2..4096"
            )
        if self.window is not None and self.window < 1:
            raise ConfigError(f"config.json: sliding_window = {self.window} is below 1")
        rope_of(self)


def rope_of(config: GQAConfig) -> Rope:
    return rope_from_config(
        config.rotary_dim,
        config.max_position_embeddings,
        theta=config.rope_theta,
        scaling=config.rope_scaling,
        parameters=config.rope_parameters,
    )


def gqa_sizes(
    config: GQAConfig, widest_mlp: int, experts_per_token: int, expert_inner: int
) -> Sizes:
    width = config.attention_dim
    state = 2 * config.kv_heads * width * 4 * config.num_hidden_layers
    attention = (2 * config.num_attention_heads + 2 * config.kv_heads) * width
    # Residual, normed input, both outputs; then attention or the widest MLP, whichever is larger;
    # quantised copies.
    row = 5 * config.hidden_size + max(attention, 3 * widest_mlp)
    scratch = moe_scratch_bytes(config.hidden_size, experts_per_token, expert_inner)
    pairs = 4 * experts_per_token * config.hidden_size
    return Sizes(state, 6 * row + scratch, pairs, experts_per_token)


def gqa_attention(
    config: GQAConfig,
    load: TrunkLoader,
    layer: int,
    rope: Rope,
    *,
    bias: bool = False,
    out_bias: bool = False,
    qk_norm: bool = False,
    norm_per_head: bool = False,
    clip: float | None = None,
) -> Attention:
    prefix = f"model.layers.{layer}.self_attn"
    eps = config.rms_norm_eps
    return Attention(
        layer=layer,
        heads=config.num_attention_heads,
        kv_heads=config.kv_heads,
        head_dim=config.attention_dim,
        qkv_proj=Projections(*(load.linear(f"{prefix}.{p}_proj", bias) for p in "qkv")),
        o_proj=load.linear(f"{prefix}.o_proj", out_bias),
        rope=rope,
        q_norm=load.rms_norm(f"{prefix}.q_norm", eps) if qk_norm else None,
        k_norm=load.rms_norm(f"{prefix}.k_norm", eps) if qk_norm else None,
        norm_per_head=norm_per_head,
        clip=clip,
        window=config.window,
    )
