"""Small made-up expert layers on disk, and what they compute."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from colibri.container.layerexperts import Span
from colibri.formats.table import FORMATS
from colibri.kernels.moe import ExpertLayout

PAGE = 4096
LAYOUT = ExpertLayout(FORMATS["f32"], 32, 40)


@dataclass(frozen=True)
class Layer:
    """Experts in f32, one after the other in one file, that start inside a page."""

    layer: int
    file: Path
    num_experts: int = 12
    layout: ExpertLayout = LAYOUT
    draft: bool = False
    record: bool = False
    lead: int = 100

    @property
    def expert_bytes(self) -> int:
        return 3 * self.layout.hidden * self.layout.inner * 4

    @property
    def slot_bytes(self) -> int:
        return -(-(PAGE + self.expert_bytes) // PAGE) * PAGE

    def begin(self, expert: int) -> int:
        return self.lead + expert * self.expert_bytes

    def reads(self, expert: int) -> tuple[Span, ...]:
        """Two reads, the second from the page in which the first ends."""
        first = self.begin(expert) // PAGE * PAGE
        end = self.begin(expert) + self.expert_bytes
        spans = []
        for start, stop in ((first, first + 2 * PAGE), (first + 2 * PAGE, end)):
            nbytes = -(-(stop - start) // PAGE) * PAGE
            spans.append(Span(self.file, start, nbytes, start - first, min(stop, end) - start))
        return tuple(spans)

    def parts(self, expert: int) -> tuple[int, int, int]:
        begin, size = self.begin(expert) % PAGE, self.expert_bytes // 3
        return begin, begin + size, begin + 2 * size


def write_layer(layer: Layer) -> None:
    rng = np.random.default_rng(layer.layer)
    weights = rng.standard_normal((layer.num_experts, layer.expert_bytes // 4), np.float32)
    layer.file.write_bytes(bytes(layer.lead) + (weights / 4).tobytes())


def routing(
    rng: np.random.Generator, rows: int, k: int, layer: Layer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, topk_ids, topk_weights of a made-up batch."""
    x = rng.standard_normal((rows, layer.layout.hidden), np.float32)
    ids = np.stack([rng.permutation(layer.num_experts)[:k] for _ in range(rows)])
    return x, ids.astype(np.int32), rng.random((rows, k), np.float32)


def expected(
    layer: Layer, x: np.ndarray, topk_ids: np.ndarray, topk_weights: np.ndarray
) -> np.ndarray:
    """The layer's output by the definition, in float64."""
    hidden, inner = layer.layout.hidden, layer.layout.inner
    data = layer.file.read_bytes()
    y = np.zeros(x.shape)
    for row, (ids, weights) in enumerate(zip(topk_ids, topk_weights, strict=True)):
        for expert, weight in zip(ids, weights, strict=True):
            begin = layer.begin(int(expert))
            flat = np.frombuffer(data[begin : begin + layer.expert_bytes], np.float32)
            gate, up, down = flat.astype(np.float64).reshape(3, inner, hidden)
            g = gate @ x[row]
            activation = g / (1 + np.exp(-g)) * (up @ x[row])
            y[row] += weight * (down.reshape(hidden, inner) @ activation)
    return y
