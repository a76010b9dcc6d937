"""How experts lie in their slots: as they are read, or cut to three bits so that more of them fit.

At three bits a slot is smaller than what is read, so an expert lands in a buffer first and is
narrowed into its slot once all its bytes are there and checked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from colibri.config.choices import CacheBits
from colibri.container.layerexperts import LayerExperts
from colibri.container.spec import align, body_bytes, down_offset
from colibri.errors import ConfigError
from colibri.experts.base import Multipliers
from colibri.experts.cache.arena import Arena
from colibri.formats.packed import INT3, SCHEMES, PackedFormat, narrow_expert
from colibri.kernels.moe import ExpertLayout

_MOST_BUFFERS = 16  # reads that may be on their way at a time, if --readers auto wants them


@dataclass(frozen=True)
class Kept:
    """The slots of one layer. parts: as LayerExperts.parts, of the expert in its slot."""

    num_experts: int
    layout: ExpertLayout
    slot_bytes: int
    parts: Callable[[int], tuple[int, ...]]


def kept(source: LayerExperts, bits: CacheBits) -> Kept:
    """Raises ConfigError where the experts cannot be kept at these bits."""
    if bits == "stored":
        return Kept(source.num_experts, source.layout, source.slot_bytes, source.parts)
    layout = narrow_layout(source.layout)
    down = down_offset(INT3, layout.hidden, layout.inner)
    return Kept(source.num_experts, layout, narrow_bytes(layout), lambda expert: (0, 0, down))


def narrow_layout(layout: ExpertLayout) -> ExpertLayout:
    """At three bits. Raises ConfigError unless the experts are packed at more."""
    if layout.format not in SCHEMES.values():
        raise ConfigError(
            f"--cache-bits 3: the experts of this model are {layout.format.name}, and only "
            "those of a converted model are narrowed; run coli convert, or leave it out"
        )
    return ExpertLayout(INT3, layout.hidden, layout.inner)


def narrow_bytes(layout: ExpertLayout) -> int:
    """Of a slot for an expert at three bits."""
    return align(body_bytes(INT3, layout.hidden, layout.inner))


def buffers_of(
    arena: Arena,
    layers: Mapping[int, LayerExperts],
    readers: int | Literal["auto"],
    bits: CacheBits,
) -> list[memoryview]:
    """Places for experts on their way; none where they are read into their slots."""
    size = max((layer.slot_bytes for layer in layers.values()), default=0)
    return [arena.view(slot) for slot in arena.take(size, buffer_count(readers, bits))]


def buffer_count(readers: int | Literal["auto"], bits: CacheBits) -> int:
    """How many experts may be on their way at a time, each in a buffer of its own. Twice the
    readers: the next ones wait where they can begin."""
    if bits == "stored":
        return 0
    return _MOST_BUFFERS if readers == "auto" else max(4, 2 * readers)


def narrow_into(
    slot: memoryview, record: memoryview, layout: ExpertLayout, multipliers: Multipliers
) -> Multipliers:
    """A record into the slot of its expert. layout, multipliers: of the record. Returns the
    multipliers that gate, up and down have in the slot."""
    assert isinstance(layout.format, PackedFormat)
    sizes = layout.hidden, layout.inner
    factor = narrow_expert(np.asarray(record), layout.format, *sizes, np.asarray(slot))
    gate, up, down = multipliers
    return gate * factor, up * factor, down * factor
