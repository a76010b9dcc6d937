"""Log-probabilities as the APIs put them: tokens by their text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import TYPE_CHECKING

from colibri.server.openai.structs.chat import Logprobs, TokenLogprob, TopLogprob
from colibri.server.openai.structs.completions import TextLogprobs

if TYPE_CHECKING:
    from colibri.answer import TokenLogprob as Entry
    from colibri.text.tokenizer import Tokenizer


class TokenNames:
    """tokenizer: None where the model has none; tokens then go by their ids."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer

    def bytes_of(self, token_id: int) -> bytes | None:
        return None if self._tokenizer is None else self._tokenizer.token_bytes(token_id)

    def name(self, token_id: int) -> str:
        """Text, or for a part of a character its bytes, as OpenAI writes them."""
        raw = self.bytes_of(token_id)
        if raw is None:
            return f"<token_id:{token_id}>"
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def chat_logprobs(entries: Iterable[Entry], names: TokenNames, top: int) -> Logprobs:
    def put(token_id: int, logprob: float) -> TopLogprob:
        raw = names.bytes_of(token_id)
        in_bytes = None if raw is None else list(raw)
        return TopLogprob(token=names.name(token_id), logprob=logprob, bytes=in_bytes)

    def entry(one: Entry) -> TokenLogprob:
        own = put(one.token_id, one.logprob)
        return TokenLogprob(
            token=own.token,
            logprob=own.logprob,
            bytes=own.bytes,
            top_logprobs=[put(*best) for best in one.top[:top]],
        )

    return Logprobs(content=[entry(one) for one in entries])


class TextLogprobsWriter:
    """Of one choice of /v1/completions, piece by piece: offsets go on."""

    def __init__(self, names: TokenNames, offset: int = 0) -> None:
        self._names = names
        self._offset = offset
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def first(self, token_id: int) -> TextLogprobs:
        """The prompt's first token, which nothing predicts."""
        return TextLogprobs(
            tokens=[self._names.name(token_id)],
            token_logprobs=[None],
            top_logprobs=[None],
            text_offset=[self._advance(token_id)],
        )

    def write(self, entries: Iterable[Entry]) -> TextLogprobs:
        entries = list(entries)
        return TextLogprobs(
            tokens=[self._names.name(e.token_id) for e in entries],
            token_logprobs=[e.logprob for e in entries],
            top_logprobs=[self._top(e) for e in entries],
            text_offset=[self._advance(e.token_id) for e in entries],
        )

    def _advance(self, token_id: int) -> int:
        """Where the token's text begins. A character that several tokens make counts once, with the
        last of them."""
        start = self._offset
        self._offset += len(self._text.decode(self._names.bytes_of(token_id) or b""))
        return start

    def _top(self, entry: Entry) -> dict[str, float]:
        """By text; of tokens with the same text the likeliest has it, the others their id."""
        found: dict[str, float] = {}
        for token_id, logprob in [*entry.top, (entry.token_id, entry.logprob)]:
            name = self._names.name(token_id)
            if name not in found:
                found[name] = logprob
            elif token_id != entry.token_id:
                found[f"<token_id:{token_id}>"] = logprob
        return found


def joined(parts: Iterable[TextLogprobs]) -> TextLogprobs:
    parts = list(parts)
    return TextLogprobs(
        tokens=[x for part in parts for x in part.tokens],
        token_logprobs=[x for part in parts for x in part.token_logprobs],
        top_logprobs=[x for part in parts for x in part.top_logprobs],
        text_offset=[x for part in parts for x in part.text_offset],
    )
