"""The system's cache of file pages, asked to forget what somebody else keeps, or what must be read
from the disk itself."""

import os


def forget_pages(descriptor: int, offset: int = 0, nbytes: int = 0) -> bool:
    """Of a file: its pages from `offset` on, nbytes 0 for all. False where the system cannot be
    asked. Pages not yet written out stay: fsync first."""
    if not hasattr(os, "posix_fadvise"):
        return False
    os.posix_fadvise(descriptor, offset, nbytes, os.POSIX_FADV_DONTNEED)
    return True
