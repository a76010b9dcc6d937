"""What a tokenizer takes, told from its file before it is loaded.

The rule was measured with tokenizers 0.23 of 4,000 to 250,000 entries and holds within a tenth or
2 MB: hash tables of the next power of two above 8/7 of the entries, a number of bytes an entry that
depends on how the merges are written, and while it is read the file and some more an entry.
"""

from dataclasses import dataclass
from pathlib import Path

from colibri.text.tokenizerfile import TokenizerFile, read_tokenizer_file
from colibri.words import count

_LIBRARY = 2_000_000  # bytes, whatever the vocabulary
_BUCKET = 83  # bytes of the tables: ids by token, tokens by id, merges
_HEAD = 16  # bytes of the merges, which tell how they are written


@dataclass(frozen=True)
class TokenizerMemory:
    """Bytes. `loading`: the most while it is loaded, what it holds later included."""

    held: int = 0
    loading: int = 0
    source: str = ""


@dataclass(frozen=True)
class _Rates:
    """Bytes an entry of the vocabulary: for good, and beyond that while the file is read."""

    held: int
    reading: int


_PAIRS, _STRINGS = _Rates(200, 500), _Rates(148, 180)  # merges as ["a", "b"], as "a b"
_RANKS = _Rates(308, 980)  # none, to be found from the order of the ids
_UNIGRAM = _Rates(1200, 20)  # a tree of the characters

NO_TOKENIZER = TokenizerMemory(source="none is loaded")


def memory_of(directory: Path) -> TokenizerMemory:
    """Of the model's directory; TokenizerError where the file is damaged."""
    path = directory / "tokenizer.json"
    if not path.exists():
        return NO_TOKENIZER
    file = read_tokenizer_file(path)
    return _memory(_entries(file), len(file.data), _rates(file), "of {}")


def memory_by_vocabulary(entries: int) -> TokenizerMemory:
    """Where the file is not here yet: as large as such a one may be."""
    return _memory(entries, 75 * entries, _PAIRS, "estimated of {}; its file is not here")


def _memory(entries: int, file_bytes: int, rates: _Rates, words: str) -> TokenizerMemory:
    buckets = 1 << (entries * 8 // 7).bit_length()
    held = _LIBRARY + _BUCKET * buckets + rates.held * entries
    return TokenizerMemory(
        held,
        held + file_bytes + rates.reading * entries,
        words.format(count(entries, "entry", "entries")),
    )


def _entries(file: TokenizerFile) -> int:
    """Counted in the text: as Python objects they would leave memory behind."""
    vocab = bytes(file.model.get("vocab", b""))
    return vocab.count(b'":') if vocab[:1] == b"{" else max(0, vocab.count(b"[") - 1)


def _rates(file: TokenizerFile) -> _Rates:
    if file.field("type") == "Unigram":
        return _UNIGRAM
    if file.lacks_merges:
        return _RANKS
    merges = bytes(memoryview(file.model.get("merges", b""))[:_HEAD])
    return _PAIRS if b"[" in merges[1:] else _STRINGS
