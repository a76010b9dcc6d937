"""What every decoder here is put together from, under the common tensor names."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from colibri.layers.decoder import Decoder, DecoderLayer, Half, Mixer
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
    mlp: Callable[[int], Half],
) -> Decoder:
    """Embedding, layers, norm and head under their common names."""
    eps = config.rms_norm_eps

    def layer(i: int) -> DecoderLayer:
        prefix = f"model.layers.{i}"
        return DecoderLayer(
            input_norm=load.rms_norm(f"{prefix}.input_layernorm", eps),
            mixer=mixer(i),
            post_norm=load.rms_norm(f"{prefix}.post_attention_layernorm", eps),
            mlp=mlp(i),
        )

    with load.together() as pool:
        # The largest first: at the end they would be loaded alone.
        first = pool.submit(load.embedding, "model.embed_tokens.weight")
        last = None if config.tie_word_embeddings else pool.submit(load.linear, "lm_head")
        layers = [pool.submit(layer, i) for i in range(config.num_hidden_layers)]
        embedding = first.result()
        return Decoder(
            embedding=embedding,
            rope=rope,
            layers=[one.result() for one in layers],
            norm=load.rms_norm("model.norm", eps),
            head=last.result() if last else Linear(embedding, load.planes),
        )
