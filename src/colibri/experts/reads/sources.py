"""From which drive an expert is read, where there is a choice: the one place that decides.

An expert is cut over its copies by the weights of their drives, so that all its parts arrive at the
same time, whatever else is read. What is too small to be cut so often comes from fewer drives, by a
hash of layer and expert. Both follow from the model, the copies and the weights alone.
"""

import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import xxhash

from colibri.container.layerexperts import LayerExperts, Span
from colibri.container.mirror import (
    MirrorCopies,
    experts_by_file,
    image_bytes,
    model_identity,
    survey,
)
from colibri.errors import ConfigError
from colibri.experts.base import PAGE

LEAST_PART_BYTES = 256 << 10  # less from one drive is not worth a read of its own
MOST_FAILURES = 3  # of a drive, which is then left alone where another one has a copy
_HASHES = 1 << 64

logger = logging.getLogger("colibri")


@dataclass(eq=False)
class Drive:
    """A directory that experts are read from, and what came from it. mirror: None for one of the
    model's own. weight: 0 where it is read only if another one fails."""

    directory: Path
    mirror: MirrorCopies | None = None
    weight: float = 1.0
    nbytes: int = 0
    failures: int = 0
    told: bool = False

    @property
    def lost(self) -> bool:
        return self.failures >= MOST_FAILURES


@dataclass(frozen=True, slots=True)
class Part:
    """Reads of some of an expert, all from one drive."""

    drive: Drive
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """Reads of all of an expert: from one mirror, or from the model itself, whose files may lie on
    several drives."""

    drive: Drive
    spans: tuple[Span, ...]


def open_drives(layers: Mapping[int, LayerExperts], mirrors: Sequence[Path]) -> list[Drive]:
    """The model's directories and the mirrors, each looked at. None where all is on one drive.

    Raises ConfigError for a directory named twice, ContainerError for one that is no mirror of this
    model; what does not fit in one that is, is left out with a warning.
    """
    own = list({file.parent: None for file in experts_by_file(layers)})
    if not mirrors and len(own) < 2:
        return []
    identity = model_identity(layers)
    drives = [Drive(directory) for directory in own]
    for directory in mirrors:
        _check_new(directory, drives)
        drives.append(Drive(directory, survey(directory, layers, identity)))
    for drive in drives:
        for why in drive.mirror.refused if drive.mirror else ():
            logger.warning("--mirror: left out: %s", why)
    return drives


def _check_new(directory: Path, drives: Sequence[Drive]) -> None:
    for drive in drives:
        if os.path.exists(directory) and directory.samefile(drive.directory):
            what = "a directory of the model itself" if drive.mirror is None else "named twice"
            raise ConfigError(f"--mirror: {directory} is {what}; a mirror is another drive's copy")


class Sources:
    """drives: those of the model first. layers: what the model reads."""

    def __init__(
        self,
        drives: Sequence[Drive],
        layers: Mapping[int, LayerExperts],
        least: int | None = None,
    ) -> None:
        self.drives = tuple(drives)
        self._layers = layers
        self._least = LEAST_PART_BYTES if least is None else least
        self._own = {drive.directory: drive for drive in drives if drive.mirror is None}
        self._mirrors = [drive for drive in drives if drive.mirror is not None]
        self._known: dict[tuple[int, int], tuple[Part, ...]] = {}

    def parts(self, layer: int, expert: int) -> tuple[Part, ...]:
        """The whole expert, each byte once."""
        key = layer, expert
        if key not in self._known:
            self._known[key] = tuple(self._split(layer, expert))
        return self._known[key]

    def copies(self, layer: int, expert: int) -> list[Copy]:
        """The model's own first; last of all where its drive is lost."""
        source = self._layers[layer]
        spans = source.reads(expert)
        own = Copy(self._own[spans[0].file.parent], tuple(spans))
        copies = []
        for drive in self._mirrors:
            assert drive.mirror is not None
            if not drive.lost and (found := drive.mirror.spans(source, expert)):
                copies.append(Copy(drive, found))
        return [*copies, own] if self._is_lost(own) else [own, *copies]

    def whole(self, copy: Copy) -> list[Part]:
        """All of an expert from one copy."""
        return self._by_drive(copy, copy.spans)

    def same(self, part: Part, copy: Copy) -> list[Part]:
        """What a part holds, from another copy."""
        begin = part.spans[0].slot_offset
        end = part.spans[-1].slot_offset + part.spans[-1].nbytes
        return self._by_drive(copy, cut(copy.spans, begin, end))

    def failed(self, drive: Drive, error: Exception) -> None:
        """Counts, and warns once a drive."""
        drive.failures += 1
        if drive.lost:
            self._known.clear()
        if not drive.told:
            drive.told = True
            logger.warning(
                "%s: %s; other copies are read instead, and no more is said of this drive",
                drive.directory,
                error,
            )

    def reset(self) -> None:
        """Sets the counters of bytes to zero."""
        for drive in self.drives:
            drive.nbytes = 0

    def _split(self, layer: int, expert: int) -> Iterator[Part]:
        copies = self.copies(layer, expert)
        good = [copy for copy in copies if not self._is_lost(copy)]
        used = [copy for copy in good if copy.drive.weight > 0] or copies[:1]
        size = image_bytes(copies[0].spans)
        weights = [copy.drive.weight for copy in used]
        bounds = split(weights, size, self._least, f"{layer} {expert}")
        for copy, (begin, end) in zip(used, bounds, strict=True):
            yield from self._by_drive(copy, cut(copy.spans, begin, end))

    def _is_lost(self, copy: Copy) -> bool:
        return any(part.drive.lost for part in self.whole(copy))

    def _by_drive(self, copy: Copy, spans: Sequence[Span]) -> list[Part]:
        if copy.drive.mirror is not None:
            return [Part(copy.drive, tuple(spans))] if spans else []
        parts: dict[Drive, list[Span]] = {}
        for span in spans:
            parts.setdefault(self._own[span.file.parent], []).append(span)
        return [Part(drive, tuple(found)) for drive, found in parts.items()]


def split(weights: Sequence[float], size: int, least: int, key: str) -> list[tuple[int, int]]:
    """Page-aligned bounds of the part of each weight, which may be empty; together 0 to size.

    size: a multiple of a page. Only as many get a part as can have `least` bytes on average, chosen
    by the key's hash against the weights; one that would have less than half of that gets none.
    """
    chosen = _choose(weights, max(1, size // least) if any(weights) else 1, key)
    while len(chosen) > 1:
        smallest = min(chosen, key=lambda i: (weights[i], i))
        if 2 * size * weights[smallest] >= least * sum(weights[i] for i in chosen):
            break
        chosen.remove(smallest)
    total = sum(weights[i] for i in chosen)
    bounds, done, begin = [], 0.0, 0
    for i, weight in enumerate(weights):
        done += weight if i in chosen else 0
        last = not any(j in chosen for j in range(i + 1, len(weights)))
        end = size if last else round(size * done / total / PAGE) * PAGE
        bounds.append((begin, end if i in chosen else begin))
        begin = bounds[-1][1]
    return bounds


def _choose(weights: Sequence[float], most: int, key: str) -> list[int]:
    """Of a set of experts each weight gets its share of the first places."""

    def rank(i: int) -> float:
        uniform = (xxhash.xxh3_64_intdigest(f"{key} {i}".encode()) + 0.5) / _HASHES
        return -math.log(uniform) / weights[i] if weights[i] > 0 else math.inf

    return sorted(range(len(weights)), key=rank)[:most]


def cut(spans: Sequence[Span], begin: int, end: int) -> list[Span]:
    """The reads that fill the slot from begin to end, both multiples of a page."""
    found = []
    for s in spans:
        low, high = max(begin, s.slot_offset), min(end, s.slot_offset + s.nbytes)
        needed = min(high, s.slot_offset + s.needed) - low
        if needed > 0:
            offset = s.offset + low - s.slot_offset
            part = replace(s, offset=offset, nbytes=high - low, slot_offset=low, needed=needed)
            found.append(part)
    return found
