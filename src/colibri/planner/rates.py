"""What this machine can do, measured in half a second, or as given."""

import time
from collections.abc import Mapping
from itertools import islice

import numpy as np

from colibri.container.layerexperts import LayerExperts, main_layers
from colibri.errors import ReadError
from colibri.formats.packed import INT4, pack_matrix
from colibri.hardware import probe
from colibri.hardware.iobench import Extent, disk_bandwidth, memory_bandwidth
from colibri.kernels.matmul import matmul

_MEMORY_SECONDS, _COMPUTE_SECONDS = 0.3, 0.1
_DISK_BYTES = 256 << 20
_SAMPLED = 64  # experts a layer: enough to be spread over the files
_SIDE = 2048  # of a square matrix: 2 MB at 4 bits, which any last-level cache holds


def memory_rate() -> float:
    """Bytes a second that the threads of arithmetic read. Takes memory for as long as it runs."""
    return memory_bandwidth(probe.facts().usable_bytes, _MEMORY_SECONDS)


def compute_rate(planes: int) -> float:
    """Bytes of 4-bit weights a second that the threads multiply with one row, out of their caches;
    planes: of the activations."""
    rng = np.random.default_rng(0)
    weights = pack_matrix(rng.standard_normal((_SIDE, _SIDE), np.float32), INT4)
    x = rng.standard_normal((1, _SIDE), np.float32)
    out = matmul(x, weights, planes)
    count, begin = 0, time.perf_counter()
    while (seconds := time.perf_counter() - begin) < _COMPUTE_SECONDS:
        matmul(x, weights, planes, out)
        count += 1
    return count * weights.nbytes / seconds


def disk_rate(layers: Mapping[int, LayerExperts], readers: int) -> float | None:
    """Bytes a second of reading experts at random; None where they are not (all) there."""
    pieces = extents(layers)
    here = {e.file: e.file.stat().st_size for e in pieces if e.file.is_file()}
    whole = [e for e in pieces if e.offset + e.nbytes <= here.get(e.file, 0)]
    if not whole:
        return None
    try:
        return disk_bandwidth(whole, readers, most_bytes=_DISK_BYTES).bytes_per_second
    except ReadError:
        return None


def extents(layers: Mapping[int, LayerExperts]) -> list[Extent]:
    """Reads of some experts of each layer that is run."""
    return [
        Extent(span.file, span.offset, span.nbytes)
        for layer in main_layers(layers).values()
        for spans in islice(layer.spans, _SAMPLED)
        for span in spans
    ]
