"""A Hugging Face checkpoint in the released names: bf16, the router's bias in fp32.

The MTP block is layer num_hidden_layers and shares embedding and head with the trunk. The DSA
indexer has random weights: index_topk covers the whole context, so it changes nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from scripts.train_demo.model import Model
from scripts.train_demo.shape import Shape
from scripts.train_demo.template import END, JINJA, STOP_TOKENS, token_id

_BIAS = "e_score_correction_bias"


def _released(name: str, layers: int) -> str:
    """Our module path as a released tensor name."""
    if name.startswith("mtp.norm."):
        return name.replace("mtp.norm.", f"model.layers.{layers}.shared_head.norm.")
    if name.startswith("mtp."):
        return f"model.layers.{layers}." + name.removeprefix("mtp.").removeprefix("block.")
    return name if name.startswith("lm_head.") else f"model.{name}"


def _split_experts(name: str, stacked: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Stacked experts, one tensor an expert and projection."""
    prefix, _, projection = name.rpartition(".")
    for i, weight in enumerate(stacked):
        if projection == "gate_up_proj":
            gate, up = weight.chunk(2)
            yield f"{prefix}.{i}.gate_proj.weight", gate
            yield f"{prefix}.{i}.up_proj.weight", up
        else:
            yield f"{prefix}.{i}.{projection}.weight", weight


def _indexer(s: Shape, layer: int) -> Iterator[tuple[str, torch.Tensor]]:
    g = torch.Generator().manual_seed(layer)
    prefix, heads, dim = (
        f"model.layers.{layer}.self_attn.indexer",
        s.index_n_heads,
        s.index_head_dim,
    )
    shapes = {
        "wq_b": (heads * dim, s.q_lora_rank),
        "wk": (dim, s.hidden_size),
        "weights_proj": (heads, s.hidden_size),
    }
    for name, (rows, columns) in shapes.items():
        weight = torch.randn(rows, columns, generator=g) * columns**-0.5
        yield f"{prefix}.{name}.weight", weight
    yield f"{prefix}.k_norm.weight", torch.ones(dim)
    yield f"{prefix}.k_norm.bias", torch.zeros(dim)


def tensors(model: Model) -> dict[str, torch.Tensor]:
    """Every tensor of the checkpoint, as stored."""
    s = model.shape
    out: dict[str, torch.Tensor] = {}
    for name, value in model.state_dict().items():
        released = _released(name, s.num_hidden_layers)
        if ".experts." in name:
            out.update(_split_experts(released, value))
        else:
            out[released] = value
    for layer in range(s.num_hidden_layers + 1):
        out.update(_indexer(s, layer))
    return {
        # Clones: pieces of a stack would drag the whole stack into the file.
        name: (t.float() if name.endswith(_BIAS) else t.bfloat16()).detach().clone().contiguous()
        for name, t in out.items()
    }


_SAME = (
    "vocab_size hidden_size intermediate_size moe_intermediate_size num_hidden_layers "
    "num_attention_heads n_routed_experts num_experts_per_tok routed_scaling_factor kv_lora_rank "
    "q_lora_rank qk_rope_head_dim qk_nope_head_dim qk_head_dim v_head_dim first_k_dense_replace "
    "index_n_heads index_head_dim rms_norm_eps max_position_embeddings"
)


def config(s: Shape) -> dict[str, Any]:
    dense, layers = s.first_k_dense_replace, s.num_hidden_layers
    return {
        "architectures": ["GlmMoeDsaForCausalLM"],
        "model_type": "glm_moe_dsa",
        **{key: getattr(s, key) for key in _SAME.split()},
        "num_key_value_heads": s.num_attention_heads,
        "head_dim": s.qk_rope_head_dim,
        "n_shared_experts": 1,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "mlp_layer_types": ["dense"] * dense + ["sparse"] * (layers - dense),
        "hidden_act": "silu",
        "rope_parameters": {"rope_type": "default", "rope_theta": s.rope_theta},
        "rope_interleave": True,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "num_nextn_predict_layers": 1,
        "index_topk": s.max_position_embeddings,
        "indexer_types": ["full"] * layers,
        "indexer_rope_interleave": True,
        "pad_token_id": token_id(END),
        "bos_token_id": None,
        "eos_token_id": [token_id(t) for t in STOP_TOKENS],
        "dtype": "bfloat16",
    }


def _dump(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def export(model: Model, tokenizer: Path, out: Path) -> int:
    """Write the checkpoint directory; returns how many tensors it holds."""
    out.mkdir(parents=True, exist_ok=True)
    stored = tensors(model)
    save_file(stored, out / "model.safetensors", metadata={"format": "pt"})
    _dump(out / "config.json", config(model.shape))
    stops = [token_id(t) for t in STOP_TOKENS]
    generation = {"do_sample": True, "temperature": 0.4, "top_p": 0.9, "max_new_tokens": 256}
    end = token_id(END)
    _dump(
        out / "generation_config.json", {"eos_token_id": stops, "pad_token_id": end, **generation}
    )
    _dump(
        out / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": END,
            "model_max_length": model.shape.max_position_embeddings,
            "clean_up_tokenization_spaces": False,
        },
    )
    (out / "chat_template.jinja").write_text(JINJA, encoding="utf-8")
    shutil.copyfile(tokenizer, out / "tokenizer.json")
    return len(stored)
