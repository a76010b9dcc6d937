"""Small text files beside a model, read whole, bounded, with damage named in words."""

import codecs
import stat
from pathlib import Path
from typing import Any

import msgspec

from colibri.container.files import dangling
from colibri.container.lookalike import BLANKS, known
from colibri.container.retry import described, of_storage, retried
from colibri.errors import ReadError, TokenizerError

MAX_BYTES = 256 * 2**20  # the largest tokenizer.json known is about 35 MB
_PIECE = 1 << 20

_PAGES = (b"<!doctype html", b"<html")  # a template may begin with another "<"


def read_bytes(path: Path, *, limit: int = MAX_BYTES) -> bytes:
    """The file's content; TokenizerError when it is absent, unreadable, empty, too large or another
    kind, ReadError where the storage is at fault.
    """
    try:
        mode = retried(path.stat).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe would be waited for
            raise TokenizerError(f"{path}: is no regular file")
        data = retried(lambda: _read(path, limit + 1))
    except FileNotFoundError:
        raise TokenizerError(dangling(path) or f"{path}: there is no such file") from None
    except OSError as error:
        kind = ReadError if of_storage(error) else TokenizerError
        raise kind(f"{path}: cannot be read: {described(error)}") from error
    if len(data) > limit:
        raise TokenizerError(f"{path}: larger than {limit} bytes, the most that is accepted here")
    if problem := looks_like(data):
        raise TokenizerError(f"{path}: this is {problem}")
    return data


def _read(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)


def looks_like(data: bytes) -> str | None:
    """What a wrong download is, in words; None when nothing is recognised."""
    head = data[:64].lstrip(BLANKS)
    if not data.strip(b"\0 \t\r\n"):
        return "an empty file (no bytes, or only zeros and blanks): download it again"
    if head.lower().startswith(_PAGES):
        return "an HTML page, not the file: download it again"
    return known(head)


def read_text(path: Path, *, limit: int = MAX_BYTES) -> str:
    return _text(read_bytes(path, limit=limit), path)


def read_object(path: Path, *, limit: int = MAX_BYTES) -> dict[str, Any]:
    """A JSON object; TokenizerError names the file and the position of what is wrong."""
    return _object(read_text(path, limit=limit), path, Any)


def read_fields(path: Path, *, limit: int = MAX_BYTES) -> tuple[bytes, dict[str, msgspec.Raw]]:
    """The same of a large one: its bytes, and its fields as they are written."""
    data = read_bytes(path, limit=limit).removeprefix(codecs.BOM_UTF8)
    _check_utf8(data, path)
    return data, _object(data, path, msgspec.Raw)


def _check_utf8(data: bytes, path: Path) -> None:
    """In pieces: as one text it may take four times its bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _PIECE):
            decoder.decode(data[start : start + _PIECE], final=start + _PIECE >= len(data))
    except UnicodeDecodeError:
        _text(data, path)  # the same error, with its place in the whole


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: not UTF-8 text at byte {error.start}") from None


def _object(text: str | bytes, path: Path, of: Any) -> dict[str, Any]:
    try:
        raw = msgspec.json.decode(text, type=msgspec.Raw)
        is_object = bytes(memoryview(raw)[:1]) == b"{"
        value = msgspec.json.decode(raw, type=dict[str, of] if is_object else Any)
    except (msgspec.DecodeError, RecursionError) as error:
        cut_off = text[-64:].rstrip()[-1:] not in ("}", b"}")
        hint = " (it seems to be cut off)" if cut_off else ""
        raise TokenizerError(f"{path}: not valid JSON: {error}{hint}") from None
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise TokenizerError(f"{path}: holds a JSON {kind} where an object is expected")
    return value
