"""A small model's usage, and processes that save it until they are killed."""

import os
from pathlib import Path

import numpy as np

from colibri.experts.usage import file
from colibri.experts.usage.counts import Counts, UsageRecorder
from colibri.experts.usage.file import Subject, UsageFile
from colibri.experts.usage.log import UsageLog

SUBJECT = Subject("small", "0123456789abcdef", {1: 4, 2: 4})
HALF_LIFE = 10**15  # nothing ages: sums are exact


def counted(expert: int = 0, tokens: int = 1) -> Counts:
    recorder = UsageRecorder(SUBJECT.experts, HALF_LIFE)
    select(recorder, expert, tokens)
    return recorder.take()


def select(recorder: UsageRecorder, expert: int, tokens: int = 1) -> None:
    for layer in SUBJECT.experts:
        recorder.note(layer, np.full((tokens, 1), expert, np.int32))


def usage_file(path: Path) -> UsageFile:
    return UsageFile(path, SUBJECT, HALF_LIFE)


def usage_log(path: Path, *, named: bool = False) -> UsageLog:
    log = UsageLog(SUBJECT, HALF_LIFE, path)
    log.load(named=named)
    return log


def save_until_killed(path: Path, expert: int, acknowledge: int, turns: int) -> None:
    """A turn selects `expert` once a layer; a byte on the descriptor after each save."""
    file._LOCK_SECONDS = 60.0  # a busy disk may be slow, and this is not about giving up
    log = usage_log(path)
    for _ in range(turns):
        select(log.recorder, expert)
        log.save()
        os.write(acknowledge, b".")
