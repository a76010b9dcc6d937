"""What every decoder here is put together from, under the common tensor names."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from colibri.layers.decoder import Block, Decoder, DecoderLayer, Mixer
from colibri.layers.linear import Linear
from colibri.layers.rope import Rope
from colibri.models.config import DecoderConfig
from colibri.models.loader import TrunkLoader

F32 = NDArray[np.float32]


def decoder(
    config: DecoderConfig,
    load: TrunkLoader,
    rope: Rope,
    mixer: Callable[[int], Mixer],
    mlp: Callable[[int], Block],
) -> Decoder:
    """Embedding, layers, norm and head under their common names."""
    embedding = load.embedding("model.embed_tokens.weight")
    layers = [
        DecoderLayer(
            input_norm=load.rms_norm(f"model.layers.{i}.input_layernorm", config.rms_norm_eps),
            mixer=mixer(i),
            post_norm=load.rms_norm(
                f"model.layers.{i}.post_attention_layernorm", config.rms_norm_eps
            ),
            mlp=mlp(i),
        )
        for i in range(config.num_hidden_layers)
    ]
    tied = config.tie_word_embeddings
    return Decoder(
        embedding=embedding,
        rope=rope,
        layers=layers,
        norm=load.rms_norm("model.norm", config.rms_norm_eps),
        head=Linear(embedding, load.planes) if tied else load.linear("lm_head"),
    )
