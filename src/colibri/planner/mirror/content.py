"""The bytes that a file of a mirror must hold, made from the model a few MB at a time."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

import numpy as np

from colibri.container.direct import DirectFiles
from colibri.container.files import opened
from colibri.container.layerexperts import LayerExperts
from colibri.container.mirror import Key, Layers
from colibri.container.spec import verify_record
from colibri.container.writer import Chunk
from colibri.planner.mirror.plan import PlannedFile

CHUNK_BYTES = 4 << 20

Step = Callable[[int], None]  # called with the bytes that come next; may raise to stop


def planned_content(planned: PlannedFile, layers: Layers) -> Generator[Chunk]:
    """A chunk holds until the next is asked for. Raises ContainerError, for damaged records too."""
    if planned.source is not None:
        yield from file_content(planned.source)
        return
    yield planned.header
    yield from records_content(planned.experts, layers)


def records_content(experts: Iterable[Key], layers: Layers) -> Generator[Chunk]:
    """The images of experts, one after the other."""
    with contextlib.closing(DirectFiles()) as files:
        for number, expert in experts:
            yield from _image(files, layers[number], expert)


def file_content(path: Path) -> Generator[Chunk]:
    with contextlib.closing(DirectFiles()) as files, opened(path) as (_, size):
        for start in range(0, size, CHUNK_BYTES):
            yield files.borrow(path, start, min(CHUNK_BYTES, size - start))


def digest(chunks: Iterable[Chunk], step: Step = lambda nbytes: None) -> str:
    """SHA-256."""
    sha256 = hashlib.sha256()
    for chunk in chunks:
        step(len(chunk))
        sha256.update(np.frombuffer(chunk, np.uint8).data)
    return sha256.hexdigest()


def _image(files: DirectFiles, layer: LayerExperts, expert: int) -> Generator[Chunk]:
    for span in layer.reads(expert):
        data = files.borrow(span.file, span.offset, span.needed)
        if layer.record:
            verify_record(data, layer.layer, expert, str(span.file))
        yield data
        yield np.zeros(span.nbytes - span.needed, np.uint8)
