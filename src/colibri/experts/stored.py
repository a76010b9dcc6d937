"""Experts at the bits that are stored, beside a cache that keeps fewer bits of them.

For the steps that measure what those fewer bits cost: they are rare, so a few slots that all
layers share do. Nothing of the cache proper changes by it, and nothing counts as use.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from colibri.config.choices import AutoOnOff, CacheBits
from colibri.container.layerexperts import LayerExperts
from colibri.experts.streamed import StreamedExperts

SLOTS = 4  # of each size: reads go on while one is multiplied


def checks_stored_bits(bits: CacheBits, check: int | Literal["auto", "off"]) -> bool:
    """Whether a run has use for them."""
    return bits != "stored" and check != "off"


def shared_slots(slot_bytes: Mapping[int, int]) -> dict[int, int]:
    """By layer: those of a size have their slots in common, counted at the first of them."""
    slots = dict.fromkeys(slot_bytes, 0)
    first = {size: n for n, size in reversed([*slot_bytes.items()])}
    return slots | dict.fromkeys(first.values(), SLOTS)


def shared_bytes(slot_bytes: Mapping[int, int]) -> int:
    """Memory of the shared slots. slot_bytes: by layer, as the experts are stored."""
    return SLOTS * sum(set(slot_bytes.values()))


def stored_experts(
    layers: Mapping[int, LayerExperts],
    beside: StreamedExperts,
    *,
    planes: int,
    pair_buffer_bytes: int,
    verify: bool,
    direct: AutoOnOff,
    cancelled: Callable[[], bool],
) -> StreamedExperts:
    """beside: the executor with fewer bits, whose drives and readers these are read like."""
    return StreamedExperts(
        layers,
        slots_per_layer=shared_slots({n: layer.slot_bytes for n, layer in layers.items()}),
        scope="global",
        planes=planes,
        readers=beside.readers,
        pair_buffer_bytes=pair_buffer_bytes,
        verify=verify,
        direct=direct,
        drives=beside.drives,
        disk_weights=[drive.weight for drive in beside.drives],
        cancelled=cancelled,
    )
