"""Checks of where the model lies."""

from __future__ import annotations

import os
from collections.abc import Sequence

from colibri.container.layerexperts import main_layers
from colibri.errors import ReadError
from colibri.planner.descriptors import needed
from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, failed, passed, skipped, warned
from colibri.words import count

_SLOW = 500e6  # bytes a second: what a SATA disk without moving parts reads


def kind(case: Case) -> Sequence[Found]:
    """A disk that answers random reads fast: no turning platters, no network between."""
    storage, where = case.machine.storage, case.model.path
    name = f"{storage.file_system or 'unknown file system'} on {storage.device or 'unknown device'}"
    if storage.in_memory:
        fix = "move the model to a disk: here it takes the memory that its experts need"
        return [warned(f"{name}: files lie in memory", where, fix=fix)]
    if storage.network:
        return [warned(f"{name}: over the network", where, fix="copy the model to a local disk")]
    if storage.rotational and not _fast(case):
        fix = "move the model to an SSD: each expert is a read somewhere else on the disk"
        return [warned(f"{name}: a turning disk", where, fix=fix)]
    return [passed(name, where)]


def _fast(case: Case) -> bool:
    """A guest's disk often says that it turns when the one below it does not."""
    extents = case.model.extents
    return bool(extents) and case.machine.disk_rate(extents).bytes_per_second >= _SLOW


def speed(case: Case) -> Sequence[Found]:
    """Reads of 1 MiB at random, past the page cache, as experts are read."""
    extents = case.model.extents
    if not extents:
        return [skipped("no file here is large enough to measure")]
    try:
        rate = case.machine.disk_rate(extents)
    except (ReadError, OSError) as error:
        fix = "look at the system's log (dmesg): the disk or file system fails"
        return [failed(f"reading failed: {error}", case.model.path, fix=fix)]
    what = f"{rate.bytes_per_second / 1e9:.2f} GB/s at random, 1 MiB at a time"
    found = []
    if not rate.direct:
        fix = "use a local file system; without direct reads --direct off is what happens"
        found.append(warned("the file system refuses direct reads (O_DIRECT)", fix=fix))
    if rate.bytes_per_second < _SLOW:
        fix = "give more memory (--ram), convert to int4-gs64, or use a faster disk"
        return [*found, warned(what, case.model.path, fix=fix)]
    return [*found, passed(what + (", past the page cache" if rate.direct else ""))]


def open_files(case: Case) -> Sequence[Found]:
    """Each file of experts stays open; the process raises its own limit as far as it may."""
    layers = main_layers(case.model.container.expert_layers())
    limit, least = case.machine.host.open_files_limit, needed(layers, len(case.config.mirror))
    if limit is not None and limit < least:
        what = f"at most {count(limit, 'file')} may be open, and {least} are needed"
        fix = "raise the hard limit (ulimit -Hn, or LimitNOFILE= of a service)"
        return [failed(what, "ulimit -Hn", fix=fix)]
    return [passed(f"{least} open files are needed, {limit or 'any number'} may be open")]


def writable(case: Case) -> Sequence[Found]:
    """What colibri learns is kept beside the model."""
    if os.access(case.model.path, os.W_OK):
        return [passed("what is learned can be kept beside the model")]
    fix = "nothing needs to be done; what is learned goes to the user's state directory"
    return [warned("the model's directory cannot be written", case.model.path, fix=fix)]
