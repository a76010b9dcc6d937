"""The config of GLM-5, 5.1, 5.2 and the large 5.3 (model_type glm_moe_dsa), and what it must be."""

from collections.abc import Mapping
from typing import Any

from colibri.layers.rope import Rope, rope_from_config
from colibri.models.config import in_range, parse_config, refuse_unless
from colibri.models.glm import GlmConfig


class GlmMoeDsaConfig(GlmConfig, frozen=True, kw_only=True):
    rope_interleave: bool = True
    indexer_rope_interleave: bool | None = None
    transformers_version: str | None = None

    @property
    def index_interleaved(self) -> bool:
        """The key decides; without it, what transformers wrote (it always interleaves), else
        half-split (GLM-5, 5.1)."""
        if self.indexer_rope_interleave is not None:
            return self.indexer_rope_interleave
        return self.transformers_version is not None and self.indexer_types is not None

    def check(self) -> None:
        super().check()
        refuse_unless(self.rope_interleave, "rope_interleave", self.rope_interleave, "true")
        in_range("qk_rope_head_dim", self.qk_rope_head_dim, 2, 4096)
        refuse_unless(
            self.qk_rope_head_dim % 2 == 0, "qk_rope_head_dim", self.qk_rope_head_dim, "even"
        )
        in_range("index_head_dim", self.index_head_dim, self.qk_rope_head_dim, 4096)
        refuse_unless(self.indexed(0), "indexer_types", "shared at layer 0", "'full' there")
        rope_of(self)


def rope_of(config: GlmMoeDsaConfig, interleaved: bool = True) -> Rope:
    return rope_from_config(
        config.qk_rope_head_dim,
        config.max_position_embeddings,
        theta=config.rope_theta,
        scaling=config.rope_scaling,
        parameters=config.rope_parameters,
        interleaved=interleaved,
    )


def parse(config: Mapping[str, Any]) -> GlmMoeDsaConfig:
    return parse_config(config, GlmMoeDsaConfig)
