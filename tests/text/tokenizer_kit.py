"""Small tokenizers of each kind, as a model's directory, and text that breaks tokenizers."""

import json
import lzma
import os
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

import colibri
from colibri.text.pieces import byte_alphabet

DEMO = Path(colibri.__file__).parent / "demo"

NASTY = (
    "",
    "plain words, 3.14 and 42",
    "   leading,  double   and trailing   ",
    "\tdef f(x):\n\t    return x\n",
    "line\r\nline\r\n\r\nline\rline\n\n\n",
    "paragraph\u2029separator line\u2028separator",
    "nul\0in\0\0side\0",
    "e\u0301 a\u0308\u0323 combining, é precomposed, Å angstrom",
    "नमस्ते दुनिया, क्षत्रिय और ज्ञान",
    "สวัสดีชาวโลก น้ำใจ",
    "你好\uff0c世界。日本語の文章 한국어 문장 𠜎𠜱",
    "👩\u200d👩\u200d👧\u200d👦 family, 🏳\ufe0f\u200d🌈 flag, 👍🏽 skin",
    "\ufeffbyte order mark, zero\u200bwidth\u200d\ufe0f",
    "▁ lower block, Ġ and Ċ and <0x41> as text",
    "</s><s> <|user|> as text",
    "\u0000\u0001\u007f\u0080\u009f\u00a0\u00ad\u0100",
)
LONG = "a" * 100_000


def save(directory: Path, library: tokenizers.Tokenizer, **config: Any) -> Path:
    """Writes tokenizer.json and, from the keywords, tokenizer_config.json."""
    directory.mkdir(parents=True, exist_ok=True)
    library.save(str(directory / "tokenizer.json"))
    if config:
        (directory / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return directory


def edit(directory: Path, change: Any) -> Path:
    """Applies change(object) to tokenizer.json."""
    path = directory / "tokenizer.json"
    data = json.loads(path.read_text("utf-8"))
    change(data)
    path.write_text(json.dumps(data), "utf-8")
    return directory


def theirs_of(directory: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))


def byte_level() -> tokenizers.Tokenizer:
    """As GPT-NeoX and Qwen have it, without a normalizer, trained on a few words."""
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
    )
    library.train_from_iterator(["the words of a text, the other text"] * 3 + list(NASTY), trainer)
    return library


def byte_fallback() -> tokenizers.Tokenizer:
    """As Llama and Mixtral have it: words with a mark for the blank, bytes for the rest."""
    words = ["▁the", "▁hello", "hello", "▁world", "▁", "▁▁", *"helowrdtnais, .▁"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    parts = ["▁h", "▁he", "▁hel", "▁hell", "he", "hel", "hell", "▁t", "▁th", "▁w", "▁wo", "▁wor"]
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*tokens, *parts, "▁worl"]))}
    merges = [("▁", "▁")]
    for word in ("▁the", "▁hello", "hello", "▁world"):
        merges += [(word[:i], word[i]) for i in range(1, len(word))]
    merges = list(dict.fromkeys(pair for pair in merges if "".join(pair) in vocab))
    model = models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    library = tokenizers.Tokenizer(model)
    library.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    library.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    return library


def metaspace() -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(
        models.BPE({"<unk>": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4}, [("▁", "a")], unk_token="<unk>")
    )
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.decoder = decoders.Metaspace()
    return library


def words() -> tokenizers.Tokenizer:
    """No decoder: tokens are words, set apart by blanks."""
    library = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "big": 1, "cat": 2}, "<unk>"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return library


def write_large(directory: Path, entries: int, *, pairs: bool = True) -> Path:
    """A byte-level tokenizer of so many entries: bytes, pairs of them, and triples. pairs: how its
    merges are written."""
    alphabet = list(byte_alphabet())
    two = ((a, b) for a in alphabet for b in alphabet)
    three = ((a + b, c) for a in alphabet[33:] for b in alphabet for c in alphabet)
    made = list(islice(chain(two, three), entries - len(alphabet)))
    tokens = dict.fromkeys([*alphabet, *(a + b for a, b in made)])
    library = byte_level()
    data = json.loads(library.to_str())
    data["added_tokens"] = []
    data["model"] |= {
        "vocab": {token: i for i, token in enumerate(tokens)},
        "merges": [[a, b] if pairs else f"{a} {b}" for a, b in made],
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False), "utf-8")
    return directory


BUILDERS = {
    "byte-level": byte_level,
    "byte-fallback": byte_fallback,
    "metaspace": metaspace,
    "words": words,
}


REAL = ("deepseek_v3", "deepseek_v4", "gptneox_olmoe", "qwen3")


def real(name: str, directory: Path) -> Path:
    """A model's own tokenizer, from the folder named by COLI_TEST_TOKENIZERS; or skips."""
    root = Path(os.environ.get("COLI_TEST_TOKENIZERS", ""))
    if not (root / f"{name}.tokenizer.json.xz").is_file():
        pytest.skip(f"{name}: set COLI_TEST_TOKENIZERS to the folder of real tokenizers")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        packed = root / f"{name}.{file}.xz"
        if packed.exists():
            (directory / file).write_bytes(lzma.decompress(packed.read_bytes()))
    return directory
