"""From a corpus directory to token files."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from scripts.train_demo.chat.generate import conversations
from scripts.train_demo.corpus import documents, domains
from scripts.train_demo.template import SPECIAL_TOKENS, token_id
from scripts.train_demo.tokens import encode, train_tokenizer


def write_corpus(directory: Path, name: str, texts: list[str]) -> None:
    with lzma.open(directory / f"{name}.txt.xz", "wt", encoding="utf-8") as file:
        file.write("\n<|endoftext|>\n".join(texts))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_corpus(tmp_path, "verse", [f"Line {i}: über 你好\r\n\tend" for i in range(100)])
    chat = tmp_path / "chat.jsonl"
    lines = [json.dumps(c) for c in conversations(1, 20_000)]
    chat.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_documents_are_split_at_the_separator_and_empty_ones_dropped(tmp_path: Path) -> None:
    write_corpus(tmp_path, "b", ["one\ntwo", "", "three"])
    write_corpus(tmp_path, "a", ["x"])
    assert domains(tmp_path) == ["a", "b"]
    assert list(documents(tmp_path, "b")) == ["one\ntwo", "three"]


def test_a_directory_without_a_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--corpus"):
        domains(tmp_path)


def test_tokens_come_back_as_the_text(work: Path) -> None:
    chat, saved = work / "chat.jsonl", work / "tokenizer.json"
    train_tokenizer(work, chat, saved, 400)
    tokenizer = Tokenizer.from_file(str(saved))
    assert [tokenizer.id_to_token(i) for i in range(len(SPECIAL_TOKENS))] == SPECIAL_TOKENS

    sizes = dict(encode(tokenizer, work, chat, work / "tokens"))
    assert set(sizes) == {"verse.val", "verse.train", "chat.val", "chat.train"}
    ids = np.fromfile(work / "tokens" / "verse.train.bin", np.uint16)
    assert ids.size == sizes["verse.train"]
    first = ids[: list(ids).index(token_id("<|endoftext|>"))].tolist()
    text = tokenizer.decode(first, skip_special_tokens=False)
    assert text.startswith("[gMASK]<sop>Line ")
    assert text.endswith(": über 你好\r\n\tend")
    # Digits stand alone, so that sums can be learnt.
    assert len(tokenizer.encode("12345").ids) == 5
