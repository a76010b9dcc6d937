"""Feed-forward parts: dense MLP, router, routed and shared experts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from scripts.train_demo.shape import Shape


class Linear(nn.Linear):
    def __init__(self, inputs: int, outputs: int, gain: float = 1.0) -> None:
        super().__init__(inputs, outputs, bias=False)
        nn.init.normal_(self.weight, std=gain * inputs**-0.5)


class MLP(nn.Module):
    def __init__(self, hidden: int, inner: int, residual_gain: float) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = Linear(hidden, inner), Linear(hidden, inner)
        self.down_proj = Linear(inner, hidden, residual_gain)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Experts(nn.Module):
    """Routed experts, stacked; tokens are sorted by expert so that each is one product."""

    def __init__(self, s: Shape, residual_gain: float) -> None:
        super().__init__()
        count, hidden, inner = s.n_routed_experts, s.hidden_size, s.moe_intermediate_size
        self.gate_up_proj = nn.Parameter(torch.randn(count, 2 * inner, hidden) * hidden**-0.5)
        down = torch.randn(count, hidden, inner) * residual_gain * inner**-0.5
        self.down_proj = nn.Parameter(down)

    def forward(self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """x [tokens, hidden]; ids, weights [tokens, chosen]."""
        order = ids.flatten().argsort(stable=True)
        token = order // ids.shape[1]
        counts = torch.bincount(ids.flatten(), minlength=len(self.down_proj)).tolist()
        outputs = []
        parts = zip(
            x[token].split(counts), self.gate_up_proj.unbind(), self.down_proj.unbind(), strict=True
        )
        for rows, gate_up, down in parts:
            gate, up = F.linear(rows, gate_up).chunk(2, -1)
            outputs.append(F.linear(F.silu(gate) * up, down))
        weighted = torch.cat(outputs) * weights.flatten()[order, None]
        return torch.zeros_like(x).index_add(0, token, weighted)


class Router(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.weight = nn.Parameter(torch.randn(s.n_routed_experts, s.hidden_size))
        nn.init.normal_(self.weight, std=s.hidden_size**-0.5)
        self.register_buffer("e_score_correction_bias", torch.zeros(s.n_routed_experts))
        self.load = torch.zeros(s.n_routed_experts)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = torch.sigmoid(F.linear(x, self.weight))
        biased = scores.detach() + self.e_score_correction_bias
        ids = biased.topk(self.s.num_experts_per_tok, -1).indices
        weights = scores.gather(-1, ids)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.s.routed_scaling_factor
        self.load = torch.bincount(ids.flatten(), minlength=self.s.n_routed_experts).float()
        return ids, weights

    @torch.no_grad()
    def balance(self, rate: float) -> None:
        """Nudge the bias of busy experts down and of idle ones up."""
        self.e_score_correction_bias.add_(rate * torch.sign(self.load.mean() - self.load))


class MoE(nn.Module):
    def __init__(self, s: Shape, residual_gain: float) -> None:
        super().__init__()
        self.gate = Router(s)
        self.experts = Experts(s, residual_gain)
        self.shared_experts = MLP(s.hidden_size, s.moe_intermediate_size, residual_gain)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(0, 1)
        ids, weights = self.gate(rows)
        out: torch.Tensor = self.experts(rows, ids, weights).view_as(x) + self.shared_experts(x)
        return out
