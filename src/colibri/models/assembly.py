"""What every decoder here is put together from, under the common tensor names."""

from collections.abc import Callable
from dataclasses import dataclass

from colibri.layers.decoder import PLAIN, Decoder, DecoderLayer, Half, Mixer, Residual
from colibri.layers.linear import Linear
from colibri.layers.norm import RMSNorm
from colibri.layers.rope import Rope
from colibri.models.config import DecoderConfig
from colibri.models.loader import TrunkLoader


@dataclass(frozen=True)
class Assembly:
    """A model's parts, each loaded when it is asked for: the whole, or layer by layer."""

    config: DecoderConfig
    load: TrunkLoader
    rope: Rope
    mixer: Callable[[int], Mixer]
    mlp: Callable[[int], Half]
    root: str = "model"  # what the names of all tensors but the head's begin with
    norm_offset: float = 0.0
    residual: Residual = PLAIN

    def layer(self, i: int) -> DecoderLayer:
        prefix = f"{self.root}.layers.{i}"
        return DecoderLayer(
            input_norm=self._norm(f"{prefix}.input_layernorm"),
            mixer=self.mixer(i),
            post_norm=self._norm(f"{prefix}.post_attention_layernorm"),
            mlp=self.mlp(i),
        )

    def norm(self) -> RMSNorm:
        return self._norm(f"{self.root}.norm")

    def _norm(self, name: str) -> RMSNorm:
        return self.load.rms_norm(name, self.config.rms_norm_eps, self.norm_offset)

    def decoder(self) -> Decoder:
        """Embedding, layers, norm and head, loaded side by side."""
        load = self.load
        with load.together() as pool:
            # The largest first: at the end they would be loaded alone.
            first = pool.submit(load.embedding, f"{self.root}.embed_tokens.weight")
            tied = self.config.tie_word_embeddings
            last = None if tied else pool.submit(load.linear, "lm_head")
            layers = [pool.submit(self.layer, i) for i in range(self.config.num_hidden_layers)]
            embedding = first.result()
            return Decoder(
                embedding=embedding,
                rope=self.rope,
                layers=[one.result() for one in layers],
                norm=self.norm(),
                head=last.result() if last else Linear(embedding, load.planes),
                residual=self.residual,
            )
