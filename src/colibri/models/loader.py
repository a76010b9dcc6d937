"""Trunk tensors by name, at the precision that was asked for."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colibri.config.choices import EmbedBits, StoredBits
from colibri.container.reader import Container
from colibri.container.trunk import load_embedding, load_matrix, load_vector
from colibri.experts.base import ExpertExecutor
from colibri.formats.base import Matrix
from colibri.hardware.hugepages import Slabs
from colibri.kernels.delta import DeltaRule, DeltaShape
from colibri.layers.linear import Linear
from colibri.layers.mlp import SwiGLU
from colibri.layers.moe import MoE
from colibri.layers.norm import LayerNorm, RMSNorm
from colibri.routing.base import Router, RouterFactory, own_router

F32 = NDArray[np.float32]

# What is packed leaves the disk idle, and one read at a time does too. Each holds a piece of 2 MB.
_THREADS = 4


class TrunkLoader:
    def __init__(
        self,
        container: Container,
        trunk_bits: StoredBits,
        embed_bits: EmbedBits,
        planes: int,
        make_router: RouterFactory = own_router,
        router_bits: Literal["source", 8] = "source",
    ) -> None:
        self.container = container
        self.trunk_bits = trunk_bits
        self.embed_bits = embed_bits
        self.planes = planes
        self.make_router = make_router
        self.router_bits: Literal["source", 8] = router_bits
        self._slabs = Slabs()

    @contextmanager
    def together(self) -> Iterator[Executor]:
        """Threads to load parts of a model on, side by side; none is left running."""
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="trunk-loader")
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
            self.container.files.close()

    def matrix(self, name: str) -> Matrix:
        return load_matrix(self.container, name, self.trunk_bits, slabs=self._slabs)

    def vector(self, name: str) -> F32:
        return load_vector(self.container, name)

    def embedding(self, name: str) -> Matrix:
        return load_embedding(self.container, name, self.embed_bits)

    def linear(self, prefix: str, bias: bool = False) -> Linear:
        return Linear(
            self.matrix(prefix + ".weight"),
            self.planes,
            self.vector(prefix + ".bias") if bias else None,
        )

    def exact(self, prefix: str) -> Linear:
        """A matrix that is never quantised: routers and their like."""
        return Linear(load_matrix(self.container, prefix + ".weight", "source"))

    def exact_beside(self, prefix: str, suffix: str = ".weight") -> Linear:
        """The same, to be multiplied in one call with linears of the same input."""
        return Linear(load_matrix(self.container, prefix + suffix, "source"), self.planes)

    def delta_rule(
        self,
        shape: DeltaShape,
        prefix: str,
        convs: Sequence[str],
        norm: str,
        *,
        eps: float,
        silu: bool,
        lower: float | None = None,
    ) -> DeltaRule:
        """From A_log, dt_bias, the short convolutions of q, k and v (one or several) and the
        output's norm under `prefix`."""
        taps = [self.vector(f"{prefix}.{conv}.weight") for conv in convs]  # [channels, 1, taps]
        conv = np.ascontiguousarray(np.concatenate(taps)[:, 0].T)
        bias = self.vector(f"{prefix}.dt_bias").reshape(-1)
        a_log = self.vector(f"{prefix}.A_log").reshape(-1)
        a_log = np.repeat(a_log, len(bias) // len(a_log))
        scale = self.vector(f"{prefix}.{norm}.weight")
        return DeltaRule(shape, conv, a_log, bias, scale, eps=eps, silu=silu, lower=lower)

    def rms_norm(self, prefix: str, eps: float, offset: float = 0.0) -> RMSNorm:
        """`offset`: 1 where weights are stored as what they differ from 1 by."""
        weight = self.vector(prefix + ".weight")
        return RMSNorm(weight + np.float32(offset) if offset else weight, eps)

    def layer_norm(self, prefix: str, eps: float) -> LayerNorm:
        return LayerNorm(self.vector(prefix + ".weight"), self.vector(prefix + ".bias"), eps)

    def swiglu(self, prefix: str, limit: float = math.inf) -> SwiGLU:
        gate, up, down = (self.linear(f"{prefix}.{part}_proj") for part in ("gate", "up", "down"))
        return SwiGLU(gate, up, down, limit)

    def moe(
        self,
        layer: int,
        gate: str,
        router: Router,
        experts: ExpertExecutor,
        shared: SwiGLU | None = None,
        shared_gate: Linear | None = None,
        limit: float = math.inf,
    ) -> MoE:
        """The one place where a layer gets its router; `gate` is the router's weight."""
        logits = self.exact(gate)
        exact = MoE(layer, logits, router, experts, shared, shared_gate, limit)
        made = self.make_router(layer, router, logits.weight.rows)
        if made is router and self.router_bits == "source":
            return exact
        if self.router_bits != "source":
            logits = Linear(load_matrix(self.container, gate + ".weight", 8), self.planes)
        return replace(exact, gate=logits, router=made, exact=exact)
