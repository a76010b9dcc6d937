"""What Qwen2-MoE and Qwen3-MoE share: which layers are sparse, their experts, router and shapes.

Source: Qwen2MoeForCausalLM and Qwen3MoeForCausalLM of transformers.
"""

from collections.abc import Callable
from typing import Any

from colibri.container.weights import ExpertShape, WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.layers.mlp import DenseMLP
from colibri.layers.moe import MoE
from colibri.models.config import in_range, refuse_unless
from colibri.models.family import Sizes
from colibri.models.gqa import GQAConfig, gqa_sizes
from colibri.models.loader import TrunkLoader
from colibri.models.names import (
    Shapes,
    attention_shapes,
    common_rules,
    expert_rules,
    outer_shapes,
    swiglu_shapes,
)
from colibri.routing.softmax import SoftmaxRouter

# transformers 5 saves Qwen3-MoE's expert count under Mixtral's name.
ALIASES = {"num_local_experts": "num_experts"}


class QwenMoeConfig(GQAConfig, frozen=True, kw_only=True):
    intermediate_size: int
    moe_intermediate_size: int
    num_experts: int
    num_experts_per_tok: int
    norm_topk_prob: bool = False
    decoder_sparse_step: int = 1
    mlp_only_layers: tuple[int, ...] = ()
    use_sliding_window: bool = False

    @property
    def window(self) -> int | None:
        return None  # `sliding_window` is written even where it is switched off

    def check(self) -> None:
        super().check()
        refuse_unless(not self.use_sliding_window, "use_sliding_window", True, "false")
        in_range("intermediate_size", self.intermediate_size, 1, 1 << 24)
        in_range("moe_intermediate_size", self.moe_intermediate_size, 1, 1 << 20)
        in_range("num_experts", self.num_experts, 1, 1 << 16)
        in_range("num_experts_per_tok", self.num_experts_per_tok, 1, self.num_experts)
        in_range("decoder_sparse_step", self.decoder_sparse_step, 1, 1 << 16)
        for layer in self.mlp_only_layers:
            in_range("mlp_only_layers", layer, 0, self.num_hidden_layers - 1)

    def sparse(self, layer: int) -> bool:
        return layer not in self.mlp_only_layers and (layer + 1) % self.decoder_sparse_step == 0


def qwen_weights(
    config: QwenMoeConfig, bias: bool, out_bias: bool, layer_shapes: Callable[[str], Shapes]
) -> WeightMap:
    """`layer_shapes(prefix)`: what a sparse or dense layer has beyond attention, gate and MLP."""
    shapes, experts = outer_shapes(config), {}
    for layer in range(config.num_hidden_layers):
        prefix = f"model.layers.{layer}"
        shapes |= attention_shapes(
            f"{prefix}.self_attn", config, config.attention_dim, bias, out_bias
        )
        if config.sparse(layer):
            shapes[f"{prefix}.mlp.gate.weight"] = (config.num_experts, config.hidden_size)
            experts[layer] = ExpertShape(
                config.num_experts, config.hidden_size, config.moe_intermediate_size
            )
        else:
            shapes |= swiglu_shapes(f"{prefix}.mlp", config.hidden_size, config.intermediate_size)
        shapes |= layer_shapes(prefix)
    return WeightMap((*expert_rules(), *common_rules()), experts, shapes)


def qwen_sizes(config: QwenMoeConfig, shared: int = 0) -> Sizes:
    dense = any(not config.sparse(layer) for layer in range(config.num_hidden_layers))
    widest = max(shared, config.intermediate_size if dense else 0)
    return gqa_sizes(config, widest, config.num_experts_per_tok, config.moe_intermediate_size)


def qwen_mlp(
    config: QwenMoeConfig, load: TrunkLoader, experts: ExpertExecutor, shared: bool
) -> Callable[[int], Any]:
    router = SoftmaxRouter(config.num_experts_per_tok, config.norm_topk_prob)

    def mlp(layer: int) -> MoE | DenseMLP:
        prefix = f"model.layers.{layer}.mlp"
        if not config.sparse(layer):
            return DenseMLP(load.swiglu(prefix))
        return load.moe(
            layer,
            f"{prefix}.gate",
            router,
            experts,
            load.swiglu(f"{prefix}.shared_expert") if shared else None,
            load.exact(f"{prefix}.shared_expert_gate") if shared else None,
        )

    return mlp
