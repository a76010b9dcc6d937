"""tokenizer.json, read without making Python objects of its vocabulary and merges: as objects they
would take several times what the tokenizer itself does.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from colibri.errors import TokenizerError
from colibri.text.files import read_fields, read_object
from colibri.text.merges import complete_merges

_SHORT = 64  # bytes: a longer list of merges is not empty

_Vocab = dict[str, int] | list[msgspec.Raw]  # ids by token, or entries in the order of their ids


@dataclass(frozen=True)
class TokenizerFile:
    """`data`: what the library reads. The others: fields of it, `model` as it is written."""

    path: Path
    data: bytes
    model: dict[str, msgspec.Raw]
    decoder: Any
    added_tokens: Any

    @property
    def lacks_merges(self) -> bool:
        """A BPE model whose merges must be found elsewhere."""
        if self.field("type") not in (None, "BPE"):
            return False
        raw = self.model.get("merges")
        return raw is None or (len(memoryview(raw)) <= _SHORT and not self.field("merges"))

    def field(self, name: str) -> Any:
        """Of the model; None where it is absent."""
        raw = self.model.get(name)
        return None if raw is None else msgspec.json.decode(raw)

    def token_id(self, token: str) -> int | None:
        """As the library would say, which need not be loaded for it."""
        for entry in self.added_tokens if isinstance(self.added_tokens, list) else ():
            if isinstance(entry, dict) and entry.get("content") == token:
                return entry.get("id")
        vocab = self.field("vocab")
        return vocab.get(token) if isinstance(vocab, dict) else None

    def largest_id(self) -> int:
        """Of a vocabulary that the library has accepted; -1 where it is empty."""
        vocab = msgspec.json.decode(self.model["vocab"], type=_Vocab)
        return max(vocab.values(), default=-1) if isinstance(vocab, dict) else len(vocab) - 1


def read_tokenizer_file(path: Path) -> TokenizerFile:
    """As it lies there. TokenizerError names what is wrong."""
    data, fields = read_fields(path)
    raw = fields.get("model", msgspec.Raw(b"null"))
    if bytes(memoryview(raw)[:1]) != b"{":
        raise TokenizerError(f"{path}: it has no model object; this is not a tokenizer's file")
    model = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    decoder, added = (
        msgspec.json.decode(fields.get(name, b"null")) for name in ("decoder", "added_tokens")
    )
    return TokenizerFile(path, data, model, decoder, added)


def with_merges(file: TokenizerFile) -> TokenizerFile:
    """Complete, where the merges were missing."""
    if not file.lacks_merges:
        return file
    whole = read_object(file.path)
    complete_merges(whole, file.path)
    return replace(file, data=msgspec.json.encode(whole))
