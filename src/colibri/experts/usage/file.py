"""The usage of a model on disk: `.coli_usage`, shared by all processes that run the model.

Text, a line a record: JSON, a space, and the 16 hex digits of the line's xxh3-64. First what the
file is, then a line a layer; the hash of a layer's line is seeded with the model's fingerprint, so
that a line of another model is as wrong as a damaged one. A process adds what it counted since its
last save to what the file holds by then, under a lock; what cannot be read is set aside unchanged.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import xxhash

from colibri.container.files import as_unicode
from colibri.container.layerexperts import LayerExperts, main_layers
from colibri.container.reader import Container
from colibri.container.writer import write_file
from colibri.errors import ColibriError, ContainerError
from colibri.experts.usage.counts import Counts, Heat
from colibri.words import count_are

USAGE_NAME = ".coli_usage"
VERSION = 1
MAX_BYTES = 64 << 20
_LOCK_SECONDS = 2.0
_HASH_DIGITS = 16
_DECIMALS = 4  # of a heat: rounding at each save stays far below a selection

# A sum of many stays a number of 64 bits.
_BOUNDS = msgspec.Meta(ge=0, le=1 << 53)
Count = Annotated[int, _BOUNDS]

T = TypeVar("T")


@dataclass(frozen=True)
class Subject:
    """The model whose usage it is. experts: how many, by layer."""

    name: str
    fingerprint: str  # 16 hex digits
    experts: Mapping[int, int]

    @classmethod
    def of(
        cls, name: str, config: Mapping[str, Any], layers: Mapping[int, LayerExperts]
    ) -> Subject:
        """Of a model's directory name, its config.json and its routed experts without drafts."""
        layouts = [
            (n, e.num_experts, e.layout.format.name, e.layout.hidden, e.layout.inner)
            for n, e in sorted(layers.items())
        ]
        said = msgspec.json.encode([config, layouts], order="deterministic")
        experts = {n: layer.num_experts for n, layer in sorted(layers.items())}
        return cls(as_unicode(name), xxhash.xxh3_64_hexdigest(said), experts)

    @classmethod
    def of_model(cls, model: Container) -> Subject:
        layers = main_layers(model.expert_layers())
        return cls.of(model.path.absolute().name, model.config, layers)

    @property
    def seed(self) -> int:
        return int(self.fingerprint, 16)


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line."""

    usage: Count  # the format's version
    model: str  # the fingerprint
    name: str
    half_life_tokens: Count
    tokens: Count
    saved_unix: Count


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    layer: Count
    selections: Count
    heat: list[Annotated[float, _BOUNDS]]


@dataclass(frozen=True)
class Found:
    """What a file holds for a subject, and what of it was refused."""

    counts: Counts
    head: Head | None  # None: no file, or it does not say what it is
    problems: tuple[str, ...] = ()
    foreign: bool = False  # nothing of it is the model's


def parse(data: bytes, subject: Subject) -> Found:
    """Each line by itself: what is damaged is a problem, the rest counts."""
    lines = data.splitlines()
    problems: list[str] = []
    head = _head(lines[0] if lines else b"", problems)
    if head is not None and head.model != subject.fingerprint:
        said = f"it is the usage of {head.name!a}, another model"
        return Found(Counts.none(subject.experts), head, (said,), foreign=True)
    found: dict[int, Line] = {}
    for number, text in enumerate(lines[1:], 2):
        line = _decode(text, Line, subject.seed)
        if line is None or not _fits(line, subject) or line.layer in found:
            problems.append(f"line {number} is damaged or of another model")
        else:
            found[line.layer] = line
    missing = subject.experts.keys() - found.keys()
    if missing and not problems:
        problems.append(f"{count_are(len(missing), 'layer')} missing: it was cut short")
    tokens = head.tokens if head is not None else 0
    foreign = head is None and not found
    return Found(_counts(tokens, found, subject), head, tuple(problems), foreign)


def encode(counts: Counts, subject: Subject, half_life_tokens: int) -> bytes:
    head = Head(
        VERSION,
        subject.fingerprint,
        subject.name,
        half_life_tokens,
        counts.tokens,
        int(time.time()),
    )
    lines = [_encoded(head, 0)]
    for layer in subject.experts:
        heat = np.round(counts.heat[layer], _DECIMALS).tolist()
        lines.append(_encoded(Line(layer, counts.selections[layer], heat), subject.seed))
    return b"".join(lines)


class UsageFile:
    """One process's hand on the file. Raises ContainerError and CapacityError where it fails; then
    the file is as it was."""

    def __init__(self, path: Path, subject: Subject, half_life_tokens: int) -> None:
        self.path = Path(os.path.realpath(path)) if path.is_symlink() else path  # links stay
        self.subject = subject
        self.half_life_tokens = half_life_tokens

    def read(self) -> Found:
        """What there is now; nothing is changed."""
        return self._parsed(self._data())

    def add(self, newer: Counts, *, wait: bool = True) -> Found:
        """Adds counts to what the file holds by now; what it holds then, and what was refused of
        what it held: this has been set aside."""
        with self._locked(wait):
            data = self._data()
            found = self._parsed(data)
            if found.problems:
                self._set_aside(data)
            total = found.counts.then(newer, self.half_life_tokens)
            self._write(self.path, encode(total, self.subject, self.half_life_tokens))
            return Found(total, found.head, found.problems, found.foreign)

    def reset(self) -> Path | None:
        """Sets the file aside, so that counting starts anew; where it is then, if there was one."""
        with self._locked():
            data = self._data()
            if not data:
                return None
            aside = self._set_aside(data)
            with _refusals(self.path):
                self.path.unlink()
            return aside

    def _set_aside(self, data: bytes) -> Path:
        """Keeps a copy under a name of its own; the same bytes have the same name."""
        aside = self.path.with_name(f"{self.path.name}.{xxhash.xxh3_64_hexdigest(data)[:8]}.old")
        self._write(aside, data)
        return aside

    def _write(self, path: Path, data: bytes) -> None:
        try:
            with _refusals(path):
                write_file(path, [data], len(data), verify=False)
        except ColibriError:
            # The name may have been given before the failure: then all is well, and to add the
            # same counts again would be wrong.
            if not self._holds(path, data):
                raise

    def _holds(self, path: Path, data: bytes) -> bool:
        try:
            return path.read_bytes() == data
        except OSError:
            return False

    def _parsed(self, data: bytes) -> Found:
        if not data:
            return Found(Counts.none(self.subject.experts), None)
        found = parse(data, self.subject)
        return replace(found, counts=found.counts.bounded(self.half_life_tokens))

    def _data(self) -> bytes:
        """Nothing where there is no file."""
        try:
            # A pipe would block.
            if not stat.S_ISREG(mode := os.stat(self.path).st_mode):
                what = "a directory; name a file in it" if stat.S_ISDIR(mode) else "no regular file"
                raise ContainerError(f"{self.path}: is {what}, or give --usage off")
            with open(self.path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ContainerError(f"{self.path}: cannot be read: {error.strerror}") from error
        if len(data) > MAX_BYTES:
            raise ContainerError(f"{self.path}: more than {MAX_BYTES} bytes: no usage file")
        return data

    @contextlib.contextmanager
    def _locked(self, wait: bool = True) -> Iterator[None]:
        """Against other processes. The lock file stays: to delete it would open a race."""
        lock = self.path.with_name(self.path.name + ".lock")
        with _refusals(lock):
            fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._take(fd, lock, _LOCK_SECONDS if wait else 0)
            yield
        finally:
            os.close(fd)  # gives the lock back, as would the death of the process

    def _take(self, fd: int, lock: Path, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                with _refusals(lock):
                    return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ContainerError(
                        f"{lock}: another process holds the lock, and has for {seconds:.0f} s"
                    ) from None
            time.sleep(0.005)


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """The system's refusals as errors that name the file."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise ContainerError(f"{path}: {error.strerror or error}") from error


def _head(line: bytes, problems: list[str]) -> Head | None:
    head = _decode(line, Head, 0)
    if head is None:
        problems.append("its first line is damaged, or it is no usage file of colibri")
    elif head.usage != VERSION:
        problems.append(f"version {head.usage} is not known; this colibri writes {VERSION}")
        return None
    return head


def _decode(text: bytes, kind: type[T], seed: int) -> T | None:
    body, digits = text[: -_HASH_DIGITS - 1], text[-_HASH_DIGITS:]
    if xxhash.xxh3_64_hexdigest(body, seed).encode() != digits:
        return None
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _encoded(record: Head | Line, seed: int) -> bytes:
    body = msgspec.json.encode(record)
    return body + b" " + xxhash.xxh3_64_hexdigest(body, seed).encode() + b"\n"


def _fits(line: Line, subject: Subject) -> bool:
    return subject.experts.get(line.layer) == len(line.heat)


def _counts(tokens: int, found: Mapping[int, Line], subject: Subject) -> Counts:
    none = Counts.none(subject.experts)
    selections = {n: line.selections for n, line in found.items()}
    heat: dict[int, Heat] = {n: np.asarray(line.heat, np.float64) for n, line in found.items()}
    return Counts(tokens, {**none.selections, **selections}, {**none.heat, **heat})
