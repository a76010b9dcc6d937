"""What a tokenizer takes, told from its file before it is loaded.

The rule was measured with tokenizers 0.23 of 4,000 to 250,000 entries and holds within 12 % or
3 MB (6 MB while the file is read, 20 % where merges have to be found): hash tables of the next
power of two above 8/7 of the entries, a number of bytes an entry that depends on how the merges are
written, and while it is read the file and some more an entry. What it keeps of its work is bounded;
together with that a tokenizer holds at most 3 MB more than is said here, and at most 15 % or 6 MB
less. The enforcement of structures takes at most 3 MB more, and at most 30 % or 3 MB less.
"""

from dataclasses import dataclass
from pathlib import Path

from colibri.text.pieces import KEPT_PIECES
from colibri.text.tokenizerfile import TokenizerFile, read_tokenizer_file
from colibri.words import count

_LIBRARY = 2_000_000  # bytes, whatever the vocabulary
_BUCKET = 83  # bytes of the tables: ids by token, tokens by id, merges
_PIECE = 115  # bytes of one that is kept
_WORDS = 4_500_000  # bytes of the words that the library remembers: 10,000 at most
_STRUCTURES = 6_000_000  # bytes of the library that enforces them
_STRUCTURES_ENTRY = 470  # bytes, those included that go back once the vocabulary is prepared
_HEAD = 16  # bytes of the merges, which tell how they are written


@dataclass(frozen=True)
class TokenizerMemory:
    """Bytes. `loaded`: once it is read; `held`: when it has worked for long; `loading`: the most
    while it is read; `structures`: more, once the first structure is asked for."""

    loaded: int = 0
    held: int = 0
    loading: int = 0
    structures: int = 0
    source: str = ""


@dataclass(frozen=True)
class _Rates:
    """Bytes an entry of the vocabulary: for good, and beyond that while the file is read."""

    held: int
    reading: int


_PAIRS, _STRINGS = _Rates(180, 470), _Rates(148, 180)  # merges as ["a", "b"], as "a b"
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
    loaded = _LIBRARY + _BUCKET * buckets + rates.held * entries
    return TokenizerMemory(
        loaded=loaded,
        held=loaded + _PIECE * min(entries, KEPT_PIECES) + _WORDS,
        loading=loaded + file_bytes + rates.reading * entries,
        structures=_STRUCTURES + _STRUCTURES_ENTRY * entries,
        source=words.format(count(entries, "entry", "entries")),
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
