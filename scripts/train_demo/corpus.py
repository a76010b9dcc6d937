"""A corpus directory: `<domain>.txt.xz`, documents apart by a line `<|endoftext|>`."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

_SUFFIX = ".txt.xz"
_SEPARATOR = "\n<|endoftext|>\n"


def domains(corpus: Path) -> list[str]:
    found = sorted(p.name.removesuffix(_SUFFIX) for p in corpus.glob(f"*{_SUFFIX}"))
    if not found:
        raise SystemExit(f"{corpus}: no <domain>{_SUFFIX} here; point --corpus at a corpus")
    return found


def documents(corpus: Path, domain: str) -> Iterator[str]:
    with lzma.open(corpus / f"{domain}{_SUFFIX}", "rt", encoding="utf-8", newline="\n") as file:
        for text in file.read().split(_SEPARATOR):
            if text.strip():
                yield text.strip("\n")
