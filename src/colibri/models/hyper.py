"""A model of hyper-connected layers, put together: hc_attn and hc_ffn beside the halves."""

from dataclasses import dataclass

from colibri.kernels.hyper import HyperMix
from colibri.layers.hyper import HyperLayer
from colibri.models.assembly import Assembly
from colibri.models.names import Shapes


@dataclass(frozen=True, kw_only=True)
class HyperAssembly(Assembly):
    """`residual` is Streams of that many."""

    streams: int
    iterations: int
    eps: float

    def layer(self, i: int) -> HyperLayer:
        plain, prefix = super().layer(i), f"{self.root}.layers.{i}"
        return HyperLayer(
            **vars(plain),
            mixer_mix=self._mix(f"{prefix}.hc_attn"),
            mlp_mix=self._mix(f"{prefix}.hc_ffn"),
        )

    def _mix(self, prefix: str) -> HyperMix:
        return HyperMix(
            self.load.exact_beside(f"{prefix}_fn", suffix="").weight,
            *(self.load.vector(f"{prefix}_{part}") for part in ("base", "scale")),
            streams=self.streams,
            iterations=self.iterations,
            norm_eps=self.config.rms_norm_eps,
            eps=self.eps,
        )


def hyper_shapes(prefix: str, streams: int, hidden: int) -> Shapes:
    """Of a layer's two."""
    mixes = (2 + streams) * streams  # into a half, out of it, between the streams
    shapes: Shapes = {}
    for part in ("attn", "ffn"):
        shapes[f"{prefix}.hc_{part}_fn"] = (mixes, streams * hidden)
        shapes[f"{prefix}.hc_{part}_base"] = (mixes,)
        shapes[f"{prefix}.hc_{part}_scale"] = (3,)
    return shapes
