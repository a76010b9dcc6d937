"""Text from token ids as they come, never half a character."""

import codecs
from typing import Protocol


class TokenBytes(Protocol):
    """What a detokenizer needs of a tokenizer."""

    special_ids: frozenset[int]

    def token_bytes(self, token_id: int, *, first: bool = False) -> bytes: ...

    @property
    def start_strip(self) -> tuple[bytes, int]: ...


class IncrementalDetokenizer:
    """push(id) returns the text that is complete by now; all of it and flush() together equal
    decode(ids).

    Bytes of an unfinished character are held back, so U+FFFD comes only from bytes that can no
    longer become one. `continues`: the ids go on from earlier text, so a leading blank is text
    and stays. `shown`: special tokens that are text all the same.
    """

    def __init__(
        self,
        tokenizer: TokenBytes,
        *,
        skip_special_tokens: bool = True,
        continues: bool = False,
        shown: frozenset[int] = frozenset(),
    ) -> None:
        self._tokenizer = tokenizer
        self._skipped = tokenizer.special_ids - shown if skip_special_tokens else frozenset()
        self._first = not continues
        self._strip, count = tokenizer.start_strip
        self._strip_left = 0 if continues else count
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        if token_id in self._skipped:
            return ""
        data = self._tokenizer.token_bytes(token_id, first=self._first)
        self._first = False
        return self._utf8.decode(self._stripped(data))

    def flush(self) -> str:
        """What is still held back; an unfinished character is U+FFFD now."""
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return text

    def _stripped(self, data: bytes) -> bytes:
        while self._strip_left and data:
            self._strip_left -= 1
            if not data.startswith(self._strip):
                self._strip_left = 0
            data = data.removeprefix(self._strip)
        return data
