"""Open expert files: reads past the page cache where the file system takes them."""

import errno
import mmap
import os
import threading
from pathlib import Path

from colibri.config.choices import AutoOnOff
from colibri.container.layerexperts import Span
from colibri.container.retry import described, retried
from colibri.errors import ReadError
from colibri.experts.base import PAGE

_DIRECT = getattr(os, "O_DIRECT", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


class ExpertFile:
    """One file, opened for direct reads if possible, and for buffered ones when needed."""

    def __init__(self, path: Path, direct: AutoOnOff) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._buffered: int | None = None
        self._refused: int | None = None
        self._direct = None if direct == "off" else _open_direct(path)
        if self._direct is None and direct == "on":
            raise ReadError(f"{path}: the file system refuses direct reads: use --direct auto")
        if self._direct is None:
            self.buffered()

    @property
    def direct(self) -> int | None:
        """The descriptor for direct reads; None if this file has to be read buffered."""
        return self._direct

    def descriptor(self) -> tuple[int, bool]:
        """The descriptor to read with, and whether that is past the page cache."""
        direct = self._direct
        return (self.buffered(), False) if direct is None else (direct, True)

    def buffered(self) -> int:
        with self._lock:
            if self._buffered is None:
                self._buffered = os.open(self.path, os.O_RDONLY | _CLOEXEC)
            return self._buffered

    def refuse_direct(self) -> None:
        """The file system accepted the open but not the read: buffered from now on.

        The descriptor stays open until close(): another reader may be using it.
        """
        with self._lock:
            if self._direct is not None:
                self._refused, self._direct = self._direct, None

    def close(self) -> None:
        for descriptor in (self._direct, self._refused, self._buffered):
            if descriptor is not None:
                os.close(descriptor)
        self._direct = self._refused = self._buffered = None


class ExpertFiles:
    """The files of a model, each opened on its first read and kept open.

    direct: "auto" reads past the page cache where that works, "off" never, "on" or not at all.
    """

    def __init__(self, direct: AutoOnOff = "auto") -> None:
        self._mode: AutoOnOff = direct
        self._lock = threading.Lock()
        self._files: dict[Path, ExpertFile] = {}

    @property
    def direct(self) -> bool:
        """Whether every file opened so far is read past the page cache."""
        with self._lock:
            return all(file.direct is not None for file in self._files.values())

    def of(self, span: Span) -> ExpertFile:
        """The open file that the span is read from. Raises ReadError."""
        with self._lock:
            file = self._files.get(span.file)
            if file is None:
                file = self._files[span.file] = _open(span.file, self._mode)
            return file

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()


def _open(path: Path, direct: AutoOnOff) -> ExpertFile:
    try:
        return retried(lambda: ExpertFile(path, direct))
    except OSError as error:
        raise ReadError(f"{path}: cannot be opened: {described(error)}") from error


def _open_direct(path: Path) -> int | None:
    """A descriptor that has proven itself on the first page, or None."""
    if not _DIRECT:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | _DIRECT | _CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EACCES, errno.EMFILE, errno.ENFILE):
            raise
        return None
    try:
        with mmap.mmap(-1, PAGE) as page:
            os.preadv(descriptor, [page], 0)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
