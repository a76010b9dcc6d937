"""A BPE tokenizer.json whose merges are missing: taken from merges.txt, or from the order of the
ids.

tiktoken-style files hold ranks only: a pair may merge when its concatenation is in the
vocabulary, the lowest rank first. Written as a merge list that is every split of every token into
two tokens, ordered by the rank.
"""

import os
from pathlib import Path
from typing import Any

from colibri.errors import TokenizerError
from colibri.text.files import read_text
from colibri.text.pieces import byte_alphabet


def complete_merges(data: dict[str, Any], path: Path) -> bool:
    """Adds model.merges if missing; True if `data` was changed. `path`: of tokenizer.json."""
    model = data["model"]
    if model.get("type") not in (None, "BPE") or model.get("merges"):
        return False
    vocab = model.get("vocab")
    if not isinstance(vocab, dict) or not all(type(rank) is int for rank in vocab.values()):
        raise TokenizerError(f"{path}: model.vocab is not an object of tokens and ids")
    beside = path.with_name("merges.txt")
    if os.path.lexists(beside):
        model["merges"] = _read_merges(beside, vocab)
    else:
        model["merges"] = _merges_from_ranks(_words(data, vocab, path))
    return True


def _read_merges(path: Path, vocab: dict[str, int]) -> list[list[str]]:
    merges = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        line = line.rstrip("\r")
        if not line or line.startswith("#version"):
            continue
        pair = line.split(" ")
        if len(pair) != 2 or any(part not in vocab for part in (*pair, "".join(pair))):
            raise TokenizerError(
                f"{path}: line {number}: {line[:80]!r} is not a pair of tokens of the vocabulary"
            )
        merges.append(pair)
    return merges


def _words(data: dict[str, Any], vocab: dict[str, int], path: Path) -> dict[str, int]:
    """The part of the vocabulary that merges build; refused where ids are no ranks."""
    entries = data.get("added_tokens") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise TokenizerError(f"{path}: added_tokens is not a list of objects")
    added = {str(entry.get("content")) for entry in entries}
    words = {token: rank for token, rank in vocab.items() if token not in added}
    alphabet = byte_alphabet()
    byte_level = all(char in words for char in alphabet)
    if not byte_level and any(len(token) > 1 for token in words):
        raise TokenizerError(
            f"{path}: model.merges is missing and the vocabulary is not byte-level, so the merges "
            f"cannot be found from it; put merges.txt beside it, or a tokenizer.json with merges"
        )
    return words


def _merges_from_ranks(words: dict[str, int]) -> list[list[str]]:
    merges = []
    for token, _ in sorted(words.items(), key=lambda item: item[1]):
        splits = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        known = [pair for pair in splits if pair[0] in words and pair[1] in words]
        merges += [
            list(pair) for pair in sorted(known, key=lambda pair: (words[pair[0]], words[pair[1]]))
        ]
    return merges
