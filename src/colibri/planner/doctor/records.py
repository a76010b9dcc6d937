"""Checks of the weights' own bytes: tails and checksums of records, numbers that are finite."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np

from colibri.container.direct import DirectFiles
from colibri.container.dtypes import FLOAT_DTYPES
from colibri.container.files import opened, read_range
from colibri.container.header import TensorInfo
from colibri.container.layerexperts import LayerExperts
from colibri.container.scaled import paired, scale_grid
from colibri.container.spec import TAIL_BYTES, parse_tail, verify_record
from colibri.errors import ColibriError
from colibri.formats.base import NonFiniteError, check_finite
from colibri.formats.floats import float_matrix
from colibri.formats.fp8 import fp8_matrix
from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, at_most_a_few, failed, passed, skipped
from colibri.planner.doctor.weights import AGAIN
from colibri.words import count

_TAILS = 4096  # looked at without --deep: a few seconds on a disk
_PIECE_BYTES = 4 << 20
_COLUMNS = 1024

Place = tuple[LayerExperts, int]  # an expert of a layer


def records(case: Case) -> Sequence[Found]:
    """Each record is that of its expert; with --deep its checksum is right too.

    As downloaded there are no checksums: --deep then looks for weights that are not finite.
    """
    if not case.model.converted:
        if case.depth.deep:
            return _finite(case)
        return [skipped("as downloaded, weights have no checksums; --deep reads them all")]
    layers = case.model.container.expert_layers().values()
    places = [(layer, e) for layer in layers for e in range(layer.num_experts)]
    if case.depth.deep:
        chosen = spread(places, case.depth.sample)
        found, word = list(_checksums(case, chosen)), "checksums"
    else:
        chosen = spread(places, _TAILS)
        found, word = list(_tails(chosen)), "tails"
    of = f"{len(chosen)} of {len(places)} records: their {word} are right"
    return list(at_most_a_few(found)) or [passed(of)]


def spread(places: Sequence[Place], most: int | None) -> Sequence[Place]:
    """At most so many, evenly over layers and experts."""
    if most is None or most >= len(places):
        return places
    return [places[i * len(places) // most] for i in range(most)]


def _tails(places: Sequence[Place]) -> Iterator[Found]:
    for layer, expert in places:
        (span,) = layer.reads(expert)
        try:
            with opened(span.file) as (fd, _):
                start = span.offset + span.nbytes - TAIL_BYTES
                tail = read_range(fd, span.file, start, TAIL_BYTES)
            parse_tail(np.frombuffer(tail, np.uint8), layer.layer, expert, str(span.file))
        except ColibriError as error:
            yield failed(str(error), span.file, fix=AGAIN)


def _checksums(case: Case, places: Sequence[Place]) -> Iterator[Found]:
    total = sum(layer.slot_bytes for layer, _ in places)
    done = 0
    with contextlib.closing(DirectFiles()) as files:
        for layer, expert in places:
            (span,) = layer.reads(expert)
            try:
                record = files.borrow(span.file, span.offset, span.nbytes)
                verify_record(record, layer.layer, expert, str(span.file))
            except ColibriError as error:
                yield failed(str(error), span.file, fix=AGAIN)
            done += span.nbytes
            case.progress("checking records", done, total)


def _finite(case: Case) -> Sequence[Found]:
    stored = paired(case.model.stored).values()
    weights = [t for t in stored if t.dtype in FLOAT_DTYPES or t.scales]
    total, done, found = sum(t.nbytes for t in weights), 0, []
    with contextlib.closing(DirectFiles()) as files:
        for tensor in weights:
            if not _is_finite(files, tensor):
                what = f"tensor {tensor.name!a} holds weights that are not finite"
                found.append(failed(what, tensor.file, fix=AGAIN))
            done += tensor.nbytes
            case.progress("checking weights", done, total)
    return list(at_most_a_few(found)) or [
        passed(f"{count(len(weights), 'tensor')}: every weight is finite")
    ]


def _is_finite(files: DirectFiles, t: TensorInfo) -> bool:
    return _fp8_is_finite(files, t) if t.scales else _floats_are_finite(files, t)


def _fp8_is_finite(files: DirectFiles, t: TensorInfo) -> bool:
    rows, cols = t.shape[-2:]
    step = max(1, _PIECE_BYTES // max(1, cols))
    for matrix in range(math.prod(t.shape[:-2])):
        grid = scale_grid(t, matrix)
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            part, place = grid.of_rows(start, stop), t.offset + (matrix * rows + start) * cols
            scales = part.array(files.read(part.file, part.offset, part.nbytes))
            codes = files.read(t.file, place, (stop - start) * cols).reshape(-1, cols)
            try:
                check_finite(fp8_matrix(codes, scales, part.first))
            except NonFiniteError:
                return False
    return True


def _floats_are_finite(files: DirectFiles, t: TensorInfo) -> bool:
    for start in range(0, t.nbytes, _PIECE_BYTES):
        piece = files.read(t.file, t.offset + start, min(_PIECE_BYTES, t.nbytes - start))
        flat = piece.view(FLOAT_DTYPES[t.dtype].dtype)
        bulk = flat.size - flat.size % _COLUMNS
        try:
            for part in (flat[:bulk].reshape(-1, _COLUMNS), flat[bulk:].reshape(1, -1)):
                if part.size:
                    check_finite(float_matrix(part))
        except NonFiniteError:
            return False
    return True
