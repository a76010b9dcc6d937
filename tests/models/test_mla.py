"""What a plan counts of the state is what the caches take."""

from typing import Any

import numpy as np
import pytest

from colibri.kvcache.latent import LatentCache
from colibri.kvcache.pooled import PooledLatentCache, kept_bytes
from colibri.models import glm5_next, glm5_next_config

FLASH: dict[str, Any] = {
    "model_type": "glm5_next_text",
    "vocab_size": 154880,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 256,
    "qk_rope_head_dim": 0,
    "v_head_dim": 256,
    "n_routed_experts": 288,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "rms_norm_eps": 1e-5,
    "hc_mult": 4,
    "hc_eps": 1e-6,
    "hc_sinkhorn_iters": 20,
    "swiglu_limit": 10.0,
    "index_topk": 2048,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_kpool": 4,
    "max_position_embeddings": 1048576,
    "linear_attn_config": {"num_heads": 64, "head_dim": 128, "short_conv_kernel_size": 4},
}
POSITIONS = 4096


def test_flash_takes_a_latent_a_position_and_a_key_a_pool() -> None:
    config = glm5_next_config.parse({"model_type": "glm5_next", "text_config": FLASH})
    sizes = glm5_next.sizes(config)
    bias = np.zeros((4, 128), np.float32)
    cache = PooledLatentCache(POSITIONS, 512, 0, bias)
    shapes = [(POSITIONS, 1, 512), (POSITIONS, 128), (POSITIONS, 128)]
    cache.append(*(np.zeros(shape, np.float32) for shape in shapes))
    assert sizes.state_bytes * POSITIONS == 11 * cache.nbytes
    assert sizes.state_bytes * 131072 / 1e9 == pytest.approx(3.14, abs=0.01)
    fewer = glm5_next_config.parse(
        {"model_type": "glm5_next", "text_config": FLASH | {"index_kpool": 2}}
    )
    more = sizes.sequence_bytes - glm5_next.sizes(fewer).sequence_bytes
    assert more == 11 * (kept_bytes(4, 128) - kept_bytes(2, 128)) > 0


def test_a_key_a_position_is_counted_too() -> None:
    cache = LatentCache(POSITIONS, 512, 64, 128)
    cache.append(np.zeros((POSITIONS, 1, 576), np.float32), np.zeros((POSITIONS, 128), np.float32))
    assert cache.nbytes == POSITIONS * 4 * (576 + 128)
