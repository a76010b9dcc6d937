"""JSON from files nobody vouches for: bounded in size, depth and count, no repeated keys, UTF-8."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np

from colibri.container.files import as_unicode, opened, read_range, shown
from colibri.container.lookalike import no_json
from colibri.errors import ContainerError

MAX_BYTES = 64 << 20
MAX_DEPTH = 64
# Commas and brackets: bounds the objects that parsing makes. A header needs about 11 a tensor, an
# index one; the largest known index has 200,000 tensors.
MAX_TOKENS = 3_000_000
_CHUNK = 1 << 20
_MAX_DIGITS = 40


def encode_json(value: Any) -> bytes:
    """Compact JSON. What is no Unicode, such as a file name of other bytes, is written with "?"."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_as_unicode(msgspec.to_builtins(value)))


def _as_unicode(value: Any) -> Any:
    match value:
        case str():
            return as_unicode(value)
        case list():
            return [_as_unicode(item) for item in value]
        case dict():
            return {as_unicode(key): _as_unicode(item) for key, item in value.items()}
        case _:
            return value


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The JSON object in a file; raises ContainerError with the file and the position."""
    with opened(path) as (fd, size):
        if size > max_bytes:
            raise ContainerError(f"{path}: {size} bytes; at most {max_bytes} are accepted here")
        data = read_range(fd, path, 0, size)
    if problem := no_json(data):
        raise ContainerError(f"{path}: no JSON file: {problem}")
    return parse_json(data.removeprefix(b"\xef\xbb\xbf"), str(path))


def parse_json(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object in data; `where` opens every error message."""
    if not data.strip(b" \t\r\n"):
        raise ContainerError(f"{where}: is empty; JSON was expected")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise ContainerError(f"{where}: no valid UTF-8 at byte {e.start}") from None
    _check_extent(data, where)
    value = _loads(text, where, _may_hold_long_number(data))
    if not isinstance(value, dict):
        raise ContainerError(f"{where}: holds {_kind(value)}; a JSON object was expected")
    if b"\\u" in data:
        _check_surrogates(value, where)
    return value


def _loads(text: str, where: str, may_be_long: bool) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            _repeated(items, where)
        return found

    def integer(digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise ContainerError(f"{where}: a number of {len(digits)} digits")
        return int(digits)

    try:
        if may_be_long:
            return json.loads(text, object_pairs_hook=pairs, parse_int=integer)
        return json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as e:
        raise ContainerError(
            f"{where}: no valid JSON at line {e.lineno}, column {e.colno} (byte "
            f"{len(text[: e.pos].encode())}): {e.msg}"
        ) from None
    except RecursionError:
        raise ContainerError(f"{where}: nested too deeply") from None


def _may_hold_long_number(data: bytes) -> bool:
    """Whether somewhere ten bytes in steps of four are digits, as in any number of 41 digits: to
    look at every number costs more than all other parsing."""
    run = np.frombuffer(data, np.uint8)[::4] - np.uint8(ord("0")) < 10
    for shift in (1, 2, 4, 2):  # runs of 2, 4, 8, 10
        run = run[:-shift] & run[shift:]
    return bool(run.any())


def _repeated(items: list[tuple[str, Any]], where: str) -> NoReturn:
    seen: set[str] = set()
    for key, _ in items:
        if key in seen:
            break
        seen.add(key)
    raise ContainerError(f"{where}: the key {shown(key)} occurs twice")


def _check_extent(data: bytes, where: str) -> None:
    """Depth and count of the document before anything is built from it, a chunk at a time."""
    # Without escapes every quote opens or closes a string. A run of backslashes starts at an
    # escape, so removing pairs first is right.
    plain = data
    if b"\\" in data:
        plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    depth, tokens, inside = 0, 0, 0
    for start in range(0, len(plain), _CHUNK):
        a = np.frombuffer(plain, np.uint8, min(_CHUNK, len(plain) - start), start)
        quoted = (np.cumsum(a == ord('"')) + inside) & 1
        low = a | 0x20  # [ and {, ] and } differ in this bit only
        step = ((low == ord("{")).astype(np.int8) - (low == ord("}"))) * (1 - quoted)
        levels = depth + np.cumsum(step)
        tokens += int(np.count_nonzero(step)) + int(
            np.count_nonzero((a == ord(",")) & (quoted == 0))
        )
        if levels.max() > MAX_DEPTH:
            raise ContainerError(f"{where}: nested deeper than {MAX_DEPTH} levels")
        if tokens > MAX_TOKENS:
            raise ContainerError(f"{where}: more than {MAX_TOKENS} values")
        depth, inside = int(levels[-1]), int(quoted[-1])


def _check_surrogates(value: Any, where: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ContainerError(f"{where}: a \\u escape that is half a character") from None


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
