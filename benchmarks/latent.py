"""What sparse latent attention costs a token of a long text: `python -m benchmarks.latent`.

A line a case, the best of the rounds that fit in SECONDS: attention over all positions and over
those that the indexer selects, and the indexer's choice among more and more of them, at the sizes
of GLM-5.2 and GLM-5.3-Flash. Attention does 60 operations a byte that it reads, so arithmetic binds
it; the yardstick is a large product of fp32 matrices by NumPy's BLAS, made in turn with the case.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from colibri.kernels import cpu
from colibri.kernels.attention import attend, index_scores_select
from colibri.kvcache.memory import untouched

SECONDS = 1.5
HEADS, INDEX_HEADS, INDEX_DIM, TOPK = 64, 32, 128, 2048
CONTEXT = 32768
LONG = (32768, 65536, 131072)
PRODUCT = 1024  # rows and columns of the yardstick


@dataclass(frozen=True)
class Model:
    name: str
    latent: int
    rope: int
    pool: int

    @property
    def row(self) -> int:
        return self.latent + self.rope


MODELS = (Model("glm-5.2", 512, 64, 1), Model("glm-5.3-flash", 512, 0, 4))


def normal(*shape: int) -> Any:
    """In memory like that of a cache, which begins at a page."""
    x = untouched(shape)
    x[:] = np.random.default_rng(1).standard_normal(shape, np.float32)
    return x


A, B, C = (normal(PRODUCT, PRODUCT) for _ in range(3))


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def report(case: str, call: Callable[[], object], operations: float, nbytes: float) -> None:
    best, product, begin = float("inf"), float("inf"), time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        best = min(best, seconds(call))
        product = min(product, seconds(lambda: np.matmul(A, B, out=C)))
    share = operations / best / (2 * PRODUCT**3 / product)
    print(
        f"{case:44} {best * 1e3:7.2f} ms  {operations / best / 1e9:6.1f} GFLOP/s"
        f" ({share:4.0%} of BLAS)  {nbytes / best / 1e9:5.1f} GB/s",
        flush=True,
    )


def attention(model: Model) -> None:
    latent = normal(CONTEXT, 1, model.row)
    q, position = normal(1, HEADS, model.row), np.array([CONTEXT - 1])
    chosen = np.sort(np.random.default_rng(2).choice(CONTEXT, TOPK, replace=False))
    for name, index in (("all", None), ("selected", chosen[None].astype(np.int32))):

        def call(index: Any = index) -> object:
            return attend(q, latent, latent[:, :, : model.latent], position, 0.06, index=index)

        keys = CONTEXT if index is None else TOPK
        operations = 2 * HEADS * keys * (model.row + model.latent)
        case = f"{model.name} attention, {keys} {name} of {CONTEXT}"
        report(case, call, operations, 4 * keys * model.row)


def indexer(model: Model) -> None:
    q, w = normal(1, INDEX_HEADS, INDEX_DIM), normal(1, INDEX_HEADS)
    for context in LONG:
        keys, position = normal(context // model.pool, INDEX_DIM), np.array([context - 1])

        def call(keys: Any = keys, position: Any = position) -> object:
            return index_scores_select(q, w, keys, position, TOPK, model.pool)

        operations = 2 * len(keys) * INDEX_HEADS * INDEX_DIM
        report(f"{model.name} indexer, {context} positions", call, operations, keys.nbytes)


def main() -> None:
    cpu.configure(os.cpu_count() or 1)
    print(f"{cpu.active_path()}, {cpu.num_threads()} threads")
    for model in MODELS:
        attention(model)
        indexer(model)


if __name__ == "__main__":
    main()
