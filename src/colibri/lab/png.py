"""A picture of lines and short texts, as a PNG file: so little that no library is needed."""

from __future__ import annotations

import struct
import zlib

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_SCALE = 2  # pixels a dot of a letter
# Letters of 3 x 5 dots, a digit a row from the top, its bits from left to right.
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.%-/:,()_+"
_DOTS = (
    "755572622771747717175571174717747577112275757757172575565656344436555674647"
    "746443455355755722271115255655444475775565555255526564425573656553421672222"
    "555575555255775552555522271247000025124500700112440202000024122214222400007"
    "02720"
)
_GLYPHS = {letter: _DOTS[5 * i : 5 * i + 5] for i, letter in enumerate(_LETTERS)}


class Canvas:
    """Points are (x, y) in pixels from the upper left; colours "#rrggbb"."""

    def __init__(self, width: int, height: int) -> None:
        self._pixels = np.full((height, width, 3), 255, np.uint8)

    def line(self, a: tuple[float, float], b: tuple[float, float], colour: str, width: int) -> None:
        steps = int(max(abs(b[0] - a[0]), abs(b[1] - a[1]))) + 1
        for t in np.linspace(0.0, 1.0, steps + 1):
            self._square(a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, width, colour)

    def dot(self, at: tuple[float, float], colour: str) -> None:
        self._square(*at, 7, colour)

    def text(self, at: tuple[float, float], text: str, colour: str, anchor: str) -> None:
        """anchor: start, middle or end; at half of the height. Unknown letters are left blank."""
        shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        x, y = round(at[0] - shift * 4 * _SCALE * len(text)), round(at[1] - 2.5 * _SCALE)
        for letter in text.upper():
            for row, bits in enumerate(_GLYPHS.get(letter, "")):
                for column in (c for c in range(3) if int(bits) & (4 >> c)):
                    self._fill(x + column * _SCALE, y + row * _SCALE, _SCALE, colour)
            x += 4 * _SCALE

    def encode(self) -> bytes:
        """The file."""
        height, width, _ = self._pixels.shape
        head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
        # Each row begins with its filter: none.
        rows = np.hstack([np.zeros((height, 1), np.uint8), self._pixels.reshape(height, -1)])
        data = zlib.compress(rows.tobytes(), 9)
        chunks = ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
        return _SIGNATURE + b"".join(_chunk(kind, body) for kind, body in chunks)

    def _square(self, x: float, y: float, size: int, colour: str) -> None:
        self._fill(round(x) - size // 2, round(y) - size // 2, size, colour)

    def _fill(self, x: int, y: int, size: int, colour: str) -> None:
        x, y = max(x, 0), max(y, 0)
        self._pixels[y : y + size, x : x + size] = tuple(bytes.fromhex(colour[1:]))


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
