"""What a storage error is, and that it is not believed at once: shared by all reads of a model."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

RETRIES = 3
_BACK_OFF_SECONDS = 0.004  # doubled each time: a flaky link or controller, not an outage
# What a drive, its mount or the network in between says; the file may be as it should be.
_STORAGE = frozenset(
    number
    for name in (
        "EIO", "ENXIO", "ENODEV", "ESTALE", "ETIMEDOUT", "EREMOTEIO", "ENOTCONN", "ECONNRESET",
        "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "EBADMSG", "EUCLEAN", "ENOMEDIUM",
        "ESHUTDOWN", "ENOLINK", "EAGAIN",
    )
    if (number := getattr(errno, name, None)) is not None
)  # fmt: skip
_FULL = frozenset((errno.EMFILE, errno.ENFILE))


def of_storage(error: OSError) -> bool:
    """Rather than of the file: that it is absent, say, or not ours to read."""
    return error.errno in _STORAGE or error.errno in _FULL


def described(error: OSError) -> str:
    """In words, with the name of its number, and what helps against it."""
    name = errno.errorcode.get(error.errno or 0)
    words = (error.strerror or type(error).__name__) + (f" ({name})" if name else "")
    if error.errno in _FULL:
        words += ": raise the limit of open files (ulimit -n)"
    return words


def pause(retry: int) -> None:
    """Before the retry of this number, from 0."""
    time.sleep(_BACK_OFF_SECONDS * 2**retry)


def retried(action: Callable[[], T]) -> T:
    """What the action gives; a storage error is raised only if it comes again and again."""
    for retry in range(RETRIES):
        try:
            return action()
        except OSError as error:
            if error.errno not in _STORAGE:
                raise
        pause(retry)
    return action()
