"""From a token to its bytes: tokenizer.json's decoder, compiled to steps on one token at a time.

Text is assembled from bytes, so a character split over tokens needs no special case. Two
differences from the `tokenizers` library, both only where it loses text: an added token decodes
to its own characters (the library reads them as byte-level code, so "é" becomes U+FFFD), and
bytes that are no UTF-8 give one U+FFFD a faulty sequence for byte fallback too, as they do for
byte-level tokens.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from colibri.errors import TokenizerError

Step = Callable[[bytes, bool], bytes]  # (token, is it the text's first) -> token

KEPT_PIECES = 8192  # tokens whose bytes a tokenizer keeps: text is mostly made of fewer

_BYTE_TOKEN = re.compile(rb"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class PieceDecoder:
    """piece(token, added, first) is the bytes that a token adds to the text."""

    steps: tuple[Step, ...]
    byte_level: bool
    strip: bytes  # a character removed up to `strip_count` times at the start of the text
    strip_count: int

    def piece(self, token: str, *, added: bool, first: bool) -> bytes:
        data = token.encode()
        if added and self.byte_level:
            return data
        for step in self.steps:
            data = step(data, first)
        return data


def compile_decoder(spec: object, where: str) -> PieceDecoder:
    """`spec`: the "decoder" object of tokenizer.json, or None. TokenizerError names a part that is
    not known.
    """
    if spec is None:  # tokens are words, set apart by blanks
        return PieceDecoder((lambda data, first: b" " + data,), False, b" ", 1)
    parts = _flatten(spec, where)
    names = [part["type"] for part in parts]
    fuse = names.index("Fuse") if "Fuse" in names else len(names)
    try:
        steps = tuple(_STEPS[part["type"]](part) for part in parts[:fuse])
        strip, count = _text_strip(parts[fuse:])
    except (KeyError, TypeError, AttributeError) as error:
        raise TokenizerError(
            f"{where}: decoder {names} has a part that is not known: {error}"
        ) from None
    return PieceDecoder(steps, "ByteLevel" in names, strip, count)


def _flatten(spec: object, where: str) -> list[dict[str, Any]]:
    if not isinstance(spec, dict) or not isinstance(spec.get("type"), str):
        raise TokenizerError(f"{where}: decoder is {spec!r}; an object with a type expected")
    if spec["type"] != "Sequence":
        return [spec]
    return [inner for part in spec.get("decoders", []) for inner in _flatten(part, where)]


def _text_strip(parts: Sequence[dict[str, Any]]) -> tuple[bytes, int]:
    """What may follow Fuse: nothing, or one Strip at the start of the whole text."""
    rest = [part for part in parts if part["type"] != "Fuse"]
    if not rest:
        return b"", 0
    last = rest[0]
    if len(rest) > 1 or last["type"] != "Strip" or last["stop"]:
        raise KeyError(f"{last['type']} after Fuse")
    return str(last["content"]).encode(), int(last["start"])


def _replace(part: dict[str, Any]) -> Step:
    old, new = part["pattern"]["String"].encode(), part["content"].encode()
    return lambda data, first: data.replace(old, new)


def _byte_fallback(part: dict[str, Any]) -> Step:
    def step(data: bytes, first: bool) -> bytes:
        match = _BYTE_TOKEN.fullmatch(data)
        return bytes([int(match[1], 16)]) if match else data

    return step


def _strip(part: dict[str, Any]) -> Step:
    char, start, stop = part["content"].encode(), part["start"], part["stop"]

    def step(data: bytes, first: bool) -> bytes:
        for _ in range(start):
            data = data.removeprefix(char)
        for _ in range(stop):
            data = data.removesuffix(char)
        return data

    return step


def _metaspace(part: dict[str, Any]) -> Step:
    mark = part["replacement"].encode()
    prefixed = part.get("prepend_scheme", "always") != "never" and part.get(
        "add_prefix_space", True
    )
    return lambda data, first: data.replace(mark, b"" if first and prefixed else b" ")


def byte_alphabet() -> dict[str, int]:
    """The byte-level alphabet: printable bytes as they are, the others from 256 on in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + index): byte for index, byte in enumerate(others)}


def _byte_level(part: dict[str, Any]) -> Step:
    table = byte_alphabet()

    def step(data: bytes, first: bool) -> bytes:
        text = data.decode(errors="surrogateescape")
        try:
            return bytes(map(table.__getitem__, text))
        except KeyError:
            return data  # not written in the alphabet: the token's own characters

    return step


_STEPS: dict[str, Callable[[dict[str, Any]], Step]] = {
    "Replace": _replace,
    "ByteFallback": _byte_fallback,
    "Strip": _strip,
    "Metaspace": _metaspace,
    "ByteLevel": _byte_level,
}
