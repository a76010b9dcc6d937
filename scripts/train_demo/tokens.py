"""The tokenizer, and every text as a file of uint16 token ids."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from scripts.train_demo.corpus import documents, domains
from scripts.train_demo.template import END, SPECIAL_TOKENS, START, render

CHAT = "chat"
_DOMAIN_BYTES, _CHAT_BYTES = 1_200_000, 6_000_000
# Contractions, words with one leading mark or space, single digits, marks, line ends, spaces.
_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def read_chat(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _limited(texts: Iterator[str], limit: int) -> Iterator[str]:
    for text in texts:
        if limit <= 0:
            return
        limit -= len(text.encode())
        yield text


def train_tokenizer(corpus: Path, chat: Path, out: Path, vocab_size: int) -> Tokenizer:
    """Byte-level BPE; digits one by one, so that arithmetic sees them."""

    def texts() -> Iterator[str]:
        for domain in domains(corpus):
            yield from _limited(documents(corpus, domain), _DOMAIN_BYTES)
        spoken = (text for made in read_chat(chat) for text in made["messages"])
        yield from _limited(spoken, _CHAT_BYTES)

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.save(str(out))
    return tokenizer


def _write(tokenizer: Tokenizer, texts: list[str], out: Path) -> int:
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    ids = np.concatenate([np.array(e.ids, np.uint16) for e in encoded])
    temporary = out.with_suffix(".tmp")
    ids.tofile(temporary)
    os.replace(temporary, out)  # a run that is going on keeps its old file
    return int(ids.size)


def _split(texts: list[str]) -> tuple[list[str], list[str]]:
    """(validation, training): a fiftieth, at most 400 documents, is validation."""
    random.Random(5).shuffle(texts)
    held = min(400, max(1, len(texts) // 50))
    return texts[:held], texts[held:]


def encode(tokenizer: Tokenizer, corpus: Path, chat: Path, out: Path) -> Iterator[tuple[str, int]]:
    """Write `<domain>.{train,val}.bin` for every domain and the chat; yields name and tokens."""
    out.mkdir(parents=True, exist_ok=True)
    for domain in [*domains(corpus), CHAT]:
        if domain == CHAT:
            texts = [render(c["messages"], c["system"]) + END for c in read_chat(chat)]
        else:
            texts = [START + text + END for text in documents(corpus, domain)]
        for split, part in zip(("val", "train"), _split(texts), strict=True):
            if not part:
                raise SystemExit(f"{domain}: one document is too few; split or add documents")
            yield f"{domain}.{split}", _write(tokenizer, part, out / f"{domain}.{split}.bin")
