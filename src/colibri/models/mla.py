"""Latent attention and its indexer, loaded under the names of mla_names.py."""

from colibri.layers.absorb import load_absorbed
from colibri.layers.indexer import Indexer
from colibri.layers.linear import Projections
from colibri.layers.mla import LatentAttention
from colibri.layers.rope import Rope
from colibri.models.loader import TrunkLoader
from colibri.models.mla_names import POOL_BIAS, POOL_GATE, LatentDims

# The references hard-wire this epsilon for the norm of the indexer's keys.
_KEY_EPS = 1e-6


def load_attention(
    c: LatentDims,
    load: TrunkLoader,
    prefix: str,
    layer: int,
    rope: Rope,
    indexer: Indexer | None,
    *,
    eps: float,
) -> LatentAttention:
    """`prefix`: up to self_attn; `eps`: of the norms of both latents."""
    key, value = load_absorbed(
        load.container,
        f"{prefix}.kv_b_proj.weight",
        heads=c.num_attention_heads,
        nope_dim=c.qk_nope_head_dim,
        value_dim=c.v_head_dim,
        bits=load.trunk_bits,
    )
    inputs = [load.linear(f"{prefix}.{name}") for name in ("q_a_proj", "kv_a_proj_with_mqa")]
    if indexer is not None:
        inputs.append(load.linear(f"{prefix}.indexer.wk"))
        if indexer.pool_bias is not None:
            inputs.append(load.exact_beside(f"{prefix}.indexer.{POOL_GATE}", suffix=""))
    return LatentAttention(
        layer=layer,
        heads=c.num_attention_heads,
        nope_dim=c.qk_nope_head_dim,
        rope_dim=c.qk_rope_head_dim,
        value_dim=c.v_head_dim,
        latent_dim=c.kv_lora_rank,
        input_proj=Projections(*inputs),
        q_a_norm=load.rms_norm(f"{prefix}.q_a_layernorm", eps),
        q_b_proj=Projections(load.linear(f"{prefix}.q_b_proj")),
        kv_a_norm=load.rms_norm(f"{prefix}.kv_a_layernorm", eps),
        kv_b_key=key,
        kv_b_value=value,
        o_proj=load.linear(f"{prefix}.o_proj"),
        rope=rope,
        planes=load.planes,
        indexer=indexer,
    )


def load_indexer(
    c: LatentDims,
    load: TrunkLoader,
    attention: str,
    layer: int,
    rope: Rope,
    *,
    pooled: bool = False,
) -> Indexer:
    """Of the attention under that prefix. `rope`: of its queries and keys."""
    prefix = f"{attention}.indexer"
    return Indexer(
        layer=layer,
        heads=c.index_n_heads,
        dim=c.index_head_dim,
        topk=c.index_topk,
        wq_b=load.linear(f"{prefix}.wq_b"),
        k_norm=load.layer_norm(f"{prefix}.k_norm", _KEY_EPS),
        weights_proj=load.exact(f"{prefix}.weights_proj"),
        rope=rope,
        pool_bias=load.vector(f"{prefix}.{POOL_BIAS}") if pooled else None,
    )
