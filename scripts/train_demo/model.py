"""The demo model in plain PyTorch: GLM-5's layout (glm_moe_dsa) at toy size.

MLA attention, dense layers first, then MoE layers with a sigmoid router whose correction bias
evens the load without a loss term, a shared expert, and one multi-token-prediction (MTP) block.
The DSA indexer is not modelled: it selects everything while index_topk covers the context, so
export.py writes random weights for it. Module names follow the released tensor names.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from scripts.train_demo.moe import MLP, Linear, MoE
from scripts.train_demo.shape import Shape


class Cache:
    """Keys and values of one layer while decoding."""

    def __init__(self) -> None:
        self.kv: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def length(self) -> int:
        return 0 if self.kv is None else self.kv[0].shape[2]

    def extend(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.kv is not None:
            k, v = torch.cat([self.kv[0], k], 2), torch.cat([self.kv[1], v], 2)
        self.kv = (k, v)
        return self.kv


class Rope(nn.Module):
    """Interleaved pairs, as the layout has them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        exponents = torch.arange(0, shape.qk_rope_head_dim, 2) / shape.qk_rope_head_dim
        steps = torch.arange(shape.max_position_embeddings)
        angles = torch.outer(steps.float(), shape.rope_theta ** -exponents.float())
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: torch.Tensor, start: int) -> torch.Tensor:
        """x [batch, heads, tokens, rope] at positions start, start + 1, ..."""
        end = start + x.shape[-2]
        cos, sin = self.cos[start:end], self.sin[start:end]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)


class Attention(nn.Module):
    """Multi-head latent attention; keys and values are expanded, which suits training."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        heads, residual_gain = s.num_attention_heads, (2 * s.num_hidden_layers) ** -0.5
        self.s = s
        self.rope = Rope(s)
        self.q_a_proj = Linear(s.hidden_size, s.q_lora_rank)
        self.q_a_layernorm = nn.RMSNorm(s.q_lora_rank, eps=1e-6)
        self.q_b_proj = Linear(s.q_lora_rank, heads * s.qk_head_dim)
        self.kv_a_proj_with_mqa = Linear(s.hidden_size, s.kv_lora_rank + s.qk_rope_head_dim)
        self.kv_a_layernorm = nn.RMSNorm(s.kv_lora_rank, eps=1e-6)
        self.kv_b_proj = Linear(s.kv_lora_rank, heads * (s.qk_nope_head_dim + s.v_head_dim))
        self.o_proj = Linear(heads * s.v_head_dim, s.hidden_size, residual_gain)

    def forward(self, x: torch.Tensor, cache: Cache | None) -> torch.Tensor:
        s, (batch, tokens, _) = self.s, x.shape
        start = cache.length if cache else 0

        def by_head(t: torch.Tensor) -> torch.Tensor:
            return t.view(batch, tokens, s.num_attention_heads, -1).transpose(1, 2)

        q = by_head(self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))))
        q_nope, q_rope = q.split([s.qk_nope_head_dim, s.qk_rope_head_dim], -1)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([s.kv_lora_rank, s.qk_rope_head_dim], -1)
        kv = by_head(self.kv_b_proj(self.kv_a_layernorm(latent)))
        k_nope, v = kv.split([s.qk_nope_head_dim, s.v_head_dim], -1)
        k_rope = self.rope(k_rope.unsqueeze(1), start).expand(-1, s.num_attention_heads, -1, -1)
        q, k = torch.cat([q_nope, self.rope(q_rope, start)], -1), torch.cat([k_nope, k_rope], -1)
        if cache:
            k, v = cache.extend(k, v)
        # Decoding feeds one token after the first call, which sees every key.
        y = F.scaled_dot_product_attention(q, k, v, is_causal=start == 0, scale=q.shape[-1] ** -0.5)
        out: torch.Tensor = self.o_proj(y.transpose(1, 2).flatten(2))
        return out


class Block(nn.Module):
    def __init__(self, s: Shape, sparse: bool) -> None:
        super().__init__()
        gain = (2 * s.num_hidden_layers) ** -0.5
        self.input_layernorm = nn.RMSNorm(s.hidden_size, eps=s.rms_norm_eps)
        self.self_attn = Attention(s)
        self.post_attention_layernorm = nn.RMSNorm(s.hidden_size, eps=s.rms_norm_eps)
        self.mlp = MoE(s, gain) if sparse else MLP(s.hidden_size, s.intermediate_size, gain)

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cache)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class MTP(nn.Module):
    """From the trunk's state at t and the token at t + 1, a state that predicts t + 2."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.enorm = nn.RMSNorm(s.hidden_size, eps=s.rms_norm_eps)
        self.hnorm = nn.RMSNorm(s.hidden_size, eps=s.rms_norm_eps)
        self.eh_proj = Linear(2 * s.hidden_size, s.hidden_size)
        self.block = Block(s, sparse=True)
        self.norm = nn.RMSNorm(s.hidden_size, eps=s.rms_norm_eps)

    def forward(self, embedded: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        joined = torch.cat([self.enorm(embedded), self.hnorm(states)], -1)
        out: torch.Tensor = self.norm(self.block(self.eh_proj(joined)))
        return out


class Model(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        nn.init.normal_(self.embed_tokens.weight, std=0.1)
        dense = shape.first_k_dense_replace
        self.layers = nn.ModuleList(
            Block(shape, i >= dense) for i in range(shape.num_hidden_layers)
        )
        self.norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.lm_head = Linear(shape.hidden_size, shape.vocab_size, math.sqrt(0.1))
        self.mtp = MTP(shape)

    def states(self, ids: torch.Tensor, caches: list[Cache] | None = None) -> torch.Tensor:
        """Hidden states after the final norm, [batch, tokens, hidden]."""
        x = self.embed_tokens(ids)
        for i, layer in enumerate(self.layers):
            x = layer(x, caches[i] if caches else None)
        out: torch.Tensor = self.norm(x)
        return out

    def draft_states(self, ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """ids and states of the same tokens; [batch, tokens - 1, hidden]."""
        out: torch.Tensor = self.mtp(self.embed_tokens(ids[:, 1:]), states[:, :-1])
        return out

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.lm_head(self.states(ids))
        return logits
