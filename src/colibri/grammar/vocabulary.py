"""A tokenizer as the grammar compiler sees it: the bytes that each token adds to a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from llguidance import LLTokenizer


class TokenizerLike(Protocol):
    special_ids: frozenset[int]
    vocab_size: int

    def encode(self, text: str, add_special_tokens: bool) -> list[int]: ...
    def token_bytes(self, token_id: int, *, first: bool = False) -> bytes: ...
    def token_id(self, token: str) -> int | None: ...


class Vocabulary:
    """`special`: tokens that are no text, so that no structure can spell them; those that end an
    answer belong to them. `end_id` is one more than the largest id: it stands for all of these, and
    no model produces it. A model may have more rows than the vocabulary: they are never allowed.
    """

    def __init__(self, tokenizer: TokenizerLike, special: frozenset[int]) -> None:
        from llguidance import LLTokenizer

        self._tokenizer = tokenizer
        self.size = tokenizer.vocab_size
        self.end_id = self.size
        bridge = _Bridge(tokenizer, special, self.end_id)
        self.compiled: LLTokenizer = LLTokenizer(bridge)  # type: ignore[arg-type]
        bridge.tokens = ()  # copied by now

    def bytes_of(self, token_id: int) -> bytes:
        return self._tokenizer.token_bytes(token_id) if token_id < self.size else b""

    def token_id(self, token: str) -> int | None:
        return self._tokenizer.token_id(token)

    def spell(self, data: bytes) -> list[int]:
        """Tokens of these bytes, which need not be whole characters."""
        return self.compiled.tokenize_bytes(data)


class _Bridge:
    """What LLTokenizer asks of a tokenizer that is none of its own."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: TokenizerLike, special: frozenset[int], end_id: int) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = end_id
        self.special_token_ids = sorted({i for i in special if i < end_id} | {end_id})
        self.tokens: Sequence[bytes] = [
            *(_token(tokenizer, i, i in special) for i in range(end_id)),
            b"<end>",
        ]

    def __call__(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)


def _token(tokenizer: TokenizerLike, token_id: int, special: bool) -> bytes:
    return b"<%d>" % token_id if special else tokenizer.token_bytes(token_id)
