"""A model's tokenizer: ids by the `tokenizers` library, text assembled from bytes (see pieces)."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from colibri.errors import TokenizerError
from colibri.hardware.allocator import give_back
from colibri.text.detokenizer import IncrementalDetokenizer
from colibri.text.pieces import KEPT_PIECES, PieceDecoder, compile_decoder
from colibri.text.special import SpecialTokens, load_special_tokens
from colibri.text.tokenizerfile import TokenizerFile, read_tokenizer_file, with_merges

_OTHER_KINDS = ("tokenizer.model", "tiktoken.model", "vocab.json", "merges.txt", "tekken.json")
_PIECE = 65536  # characters
_SEAM = 64  # tokens that a cut may have added


class Tokenizer:
    """Text to token ids and back.

    bos_id, pad_id: int or None. eos_ids: ids at which the tokenizer itself says that text ends.
    special_ids: what decode leaves out unless told otherwise. vocab_size: one more than the
    largest id. named_tokens: "bos_token" -> "<s>" and so on, the variables of a chat template.
    """

    def __init__(
        self,
        library: tokenizers.Tokenizer,
        pieces: PieceDecoder,
        special: SpecialTokens,
        vocab_size: int,
    ) -> None:
        self._library = library
        self._pieces = pieces
        self._special = special
        self._added = library.get_added_tokens_decoder()
        self._kept: dict[int, bytes] = {}  # KEPT_PIECES at most
        self.named_tokens = dict(special.named)
        self.bos_id = self._named_id("bos_token")
        self.pad_id = self._named_id("pad_token")
        eos = self._named_id("eos_token")
        self.eos_ids = frozenset(() if eos is None else (eos,))
        self.special_ids = frozenset(self._find_special_ids())
        self.vocab_size = max(vocab_size, max(self._added, default=-1) + 1)

    @classmethod
    def load(cls, directory: Path) -> "Tokenizer":
        """Reads tokenizer.json and what lies beside it; TokenizerError names a file that is bad."""
        path = directory / "tokenizer.json"
        if not os.path.lexists(path):
            raise TokenizerError(_absent(directory))
        file = read_tokenizer_file(path)
        _check_model(file)
        library = _parse(with_merges(file))
        special = load_special_tokens(directory)
        _add_tokens(library, special, directory / "tokenizer_config.json")
        pieces = compile_decoder(file.decoder, str(path))
        tokenizer = cls(library, pieces, special, _size(library, file))
        tokenizer._check_bos(directory)
        del file
        give_back()  # what reading took is up to twice what is kept
        return tokenizer

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """Ids of `text`. With special tokens: BOS (and what else the tokenizer puts around a text)
        as its files say, which is the rule for a raw prompt. A rendered chat template holds its
        own: encode it without.
        """
        _check_text(text)
        encoding = self._encode(text, add_special_tokens)
        if not add_special_tokens:
            return list(encoding.ids)
        return self._around(list(encoding.ids), encoding.special_tokens_mask)

    def exceeds(self, text: str, limit: int) -> bool:
        """Whether a long text has more than `limit` tokens, told from its pieces: as a whole it
        would take hundreds of bytes a character. False for a short one, which costs nothing.
        """
        if len(text) <= _PIECE:
            return False
        _check_text(text)
        count = 0
        for start in range(0, len(text), _PIECE):
            piece = self._encode(text[start : start + _PIECE], add_special_tokens=False)
            count += len(piece.ids) - _SEAM
            if count > limit:
                return True
        return False

    def _encode(self, text: str, add_special_tokens: bool) -> tokenizers.Encoding:
        with _refusals("the tokenizer cannot encode this text"):
            return self._library.encode(text, add_special_tokens=add_special_tokens)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of `ids`. Bytes that are no UTF-8 become U+FFFD; ids beyond the vocabulary
        (padding rows of a model's head) are no text.
        """
        detokenizer = IncrementalDetokenizer(self, skip_special_tokens=skip_special_tokens)
        return "".join([*map(detokenizer.push, ids), detokenizer.flush()])

    def token_bytes(self, token_id: int, *, first: bool = False) -> bytes:
        """What the token adds to a text; `first`: at the start of it, where some families drop a
        blank.
        """
        if first:
            return self._piece(token_id, first=True)
        data = self._kept.get(token_id)
        if data is None:
            data = self._piece(token_id, first=False)
            if len(self._kept) == KEPT_PIECES:
                self._kept.clear()  # what is needed again is soon there again
            self._kept[token_id] = data
        return data

    def token_text(self, token_id: int) -> str:
        """The token alone, as text: for people, not for joining."""
        return self.token_bytes(token_id).decode(errors="replace")

    def token_id(self, token: str) -> int | None:
        """The id of a token as it is written in the vocabulary."""
        return self._library.token_to_id(token)

    @property
    def start_strip(self) -> tuple[bytes, int]:
        """The character, and how many of it, that the start of a text loses."""
        return self._pieces.strip, self._pieces.strip_count

    def _piece(self, token_id: int, *, first: bool) -> bytes:
        if token_id < 0:
            raise TokenizerError(f"{token_id} is not a token id")
        token = self._library.id_to_token(token_id)
        if token is None:
            return b""
        return self._pieces.piece(token, added=token_id in self._added, first=first)

    def _around(self, ids: list[int], mask: list[int]) -> list[int]:
        """Where tokenizer_config.json is explicit it overrules the post-processor."""
        if self._special.add_bos is not None and self.bos_id is not None:
            ids, mask = _edge(ids, mask, self.bos_id, self._special.add_bos)
        eos = self._named_id("eos_token")
        if self._special.add_eos is not None and eos is not None:
            ids, mask = _edge(ids[::-1], mask[::-1], eos, self._special.add_eos)
            ids = ids[::-1]
        return ids

    def _named_id(self, name: str) -> int | None:
        token = self.named_tokens.get(name)
        return None if token is None else self._library.token_to_id(token)

    def _find_special_ids(self) -> Iterable[int]:
        yield from (token_id for token_id, token in self._added.items() if token.special)
        for token in (*self.named_tokens.values(), *self._special.others):
            token_id = self._library.token_to_id(token)
            if token_id is not None:
                yield token_id

    def _check_bos(self, directory: Path) -> None:
        token = self.named_tokens.get("bos_token")
        if self._special.add_bos and token is not None and self.bos_id is None:
            where = directory / "tokenizer_config.json"
            raise TokenizerError(
                f"{where}: add_bos_token is set but bos_token {token!r} is not in tokenizer.json"
            )


def _edge(ids: list[int], mask: list[int], token: int, wanted: bool) -> tuple[list[int], list[int]]:
    """Puts `token` first, or takes it away, without doubling what the post-processor put there."""
    present = bool(ids) and ids[0] == token and mask[0] == 1
    if wanted and not present:
        return [token, *ids], [1, *mask]
    if present and not wanted:
        return ids[1:], mask[1:]
    return ids, mask


@contextmanager
def _refusals(words: str) -> Iterator[None]:
    """The library raises nothing narrower than Exception, and panics, which are not even that."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"{words}: {error}") from None


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"the text holds half a character (a lone surrogate, "
            f"U+{ord(text[error.start]):04X}) at position {error.start}; send valid Unicode"
        ) from None


def _absent(directory: Path) -> str:
    if not directory.is_dir():
        return f"{directory}: not a directory with a tokenizer.json"
    found = [name for name in _OTHER_KINDS if (directory / name).exists()]
    hint = f"; {', '.join(found)} cannot be used in its place" if found else ""
    return f"{directory}: there is no tokenizer.json{hint}; copy it from the model's source"


def _check_model(file: TokenizerFile) -> None:
    """What the library would meet with a crash of the process instead of an error."""
    prefix = file.field("continuing_subword_prefix")
    if prefix and file.field("type") in (None, "BPE"):
        raise TokenizerError(
            f"{file.path}: model.continuing_subword_prefix is {prefix!r}; only null is supported"
        )


def _parse(file: TokenizerFile) -> tokenizers.Tokenizer:
    with _refusals(f"{file.path}: the tokenizers library refuses it"):
        library = tokenizers.Tokenizer.from_buffer(file.data)
    library.no_truncation()  # a training setting: it would cut prompts without a word
    library.no_padding()
    if getattr(library.model, "dropout", None):
        library.model.dropout = None  # random splits, for training only
    return library


def _size(library: tokenizers.Tokenizer, file: TokenizerFile) -> int:
    """One more than the largest id of the model. Its vocabulary as Python objects, which would
    leave memory behind, is made only where ids are left out."""
    model, count = library.model, library.get_vocab_size(with_added_tokens=False)
    if all(model.id_to_token(i) is not None for i in range(count)):
        return count
    return file.largest_id() + 1


def _add_tokens(library: tokenizers.Tokenizer, special: SpecialTokens, path: Path) -> None:
    """Tokens that only tokenizer_config.json knows, which transformers adds at load as well."""
    known = library.get_added_tokens_decoder()
    for token_id, fields in sorted(special.added.items()):
        if token_id not in known:
            _add_token(library, token_id, fields, path)


def _add_token(
    library: tokenizers.Tokenizer, token_id: int, fields: dict[str, Any], path: Path
) -> None:
    content = fields["content"]
    flags = {name: bool(fields.get(name, False)) for name in ("single_word", "lstrip", "rstrip")}
    special = bool(fields.get("special", False))
    normalized = bool(fields.get("normalized", not special))
    token = tokenizers.AddedToken(content, normalized=normalized, special=special, **flags)
    library.add_special_tokens([token]) if special else library.add_tokens([token])
    if library.token_to_id(content) != token_id:
        raise TokenizerError(
            f"{path}: added_tokens_decoder gives {content!r} the id {token_id}, tokenizer.json "
            f"gives it {library.token_to_id(content)}; the two files are not of one model"
        )
