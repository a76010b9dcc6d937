"""One writer at a time in a directory."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from colibri.container.writer import naming_the_file
from colibri.errors import ConfigError


@contextlib.contextmanager
def locked(directory: Path, work: str) -> Iterator[None]:
    """Make the directory and hold it against a second writer; `work` names what would be another
    one's. Work that is refused before it wrote anything leaves no directory that was not there."""
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    with naming_the_file(directory):
        directory.mkdir(parents=True, exist_ok=True)
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Some network file systems know no such lock; the rest is safe without.
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise ConfigError(
                    f"{directory}: another {work} is writing here; wait for it or stop it"
                ) from None
        try:
            yield
        except BaseException:
            _remove_empty(made)
            raise
    finally:
        os.close(fd)


def _remove_empty(made: Sequence[Path]) -> None:
    """Innermost first; one that holds something ends it."""
    with contextlib.suppress(OSError):
        for folder in made:
            folder.rmdir()
