"""Shapes small enough to be made in a test."""

from colibri.lab.shapes import Shape

OLMOE = Shape(
    "tiny-olmoe",
    {
        "model_type": "olmoe",
        "vocab_size": 96,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "intermediate_size": 32,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 128,
    },
)
GLM = Shape(
    "tiny-glm",
    {
        "model_type": "glm_moe_dsa",
        "vocab_size": 96,
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "moe_intermediate_size": 32,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "q_lora_rank": 32,
        "kv_lora_rank": 24,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
        "index_topk": 16,
        "index_n_heads": 2,
        "index_head_dim": 16,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 128,
    },
)
DENSE = Shape("dense-glm", {**GLM.config, "num_hidden_layers": 1})
