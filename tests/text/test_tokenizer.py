"""Ids are those of the `tokenizers` library, text comes back, the BOS rule is the model's."""

import json
import unicodedata
from pathlib import Path

import pytest
from tokenizers import AddedToken, processors

from colibri.errors import TokenizerError
from colibri.text.tokenizer import Tokenizer
from text import tokenizer_kit as kit

SYNTHETIC = ("byte-level", "byte-fallback")


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return kit.save(tmp_path, kit.byte_fallback(), bos_token="<s>", eos_token={"content": "</s>"})


def assert_faithful(directory: Path, text: str) -> None:
    ours, library = Tokenizer.load(directory), kit.theirs_of(directory)
    ids = ours.encode(text, add_special_tokens=False)
    assert ids == library.encode(text, add_special_tokens=False).ids
    assert ours.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("text", [*kit.NASTY, kit.LONG], ids=lambda text: ascii(text[:12]))
def test_demo_ids_equal_the_library_and_come_back(text: str) -> None:
    assert_faithful(kit.DEMO, text)


@pytest.mark.parametrize("kind", SYNTHETIC)
def test_small_tokenizers_ids_equal_the_library_and_come_back(kind: str, tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.BUILDERS[kind]())
    for text in kit.NASTY:
        if kind == "byte-fallback" and ("▁" in text or "<" in text):
            continue  # not written back by that family itself
        assert_faithful(directory, text)
    assert_faithful(directory, "a" * 5000)


@pytest.mark.parametrize("name", kit.REAL)
def test_real_tokenizers(name: str, tmp_path: Path) -> None:
    directory = kit.real(name, tmp_path)
    ours, library = Tokenizer.load(directory), kit.theirs_of(directory)
    for text in [*kit.NASTY, kit.LONG]:
        ids = ours.encode(text, add_special_tokens=False)
        assert ids == library.encode(text, add_special_tokens=False).ids
        back = ours.decode(ids, skip_special_tokens=False)
        assert back == library.decode(ids, skip_special_tokens=False)
        if name in ("qwen3", "gptneox_olmoe"):  # their own normalizer
            text = unicodedata.normalize("NFC", text)
        assert back == text
    every = range(0, ours.vocab_size, 13)
    assert [ours.decode([i], False) for i in every] == [library.decode([i], False) for i in every]


@pytest.mark.parametrize("kind", kit.BUILDERS)
def test_decode_equals_the_library(kind: str, tmp_path: Path) -> None:
    library = kit.BUILDERS[kind]()
    ours = Tokenizer.load(kit.save(tmp_path, library))
    text = {"metaspace": "a b  ab a", "words": "big cat huge big"}.get(kind, "hello  the world, 你")
    ids = library.encode(text).ids
    for start in range(len(ids)):
        assert ours.decode(ids[start:]) == library.decode(ids[start:])


def test_vocabulary_and_special_ids() -> None:
    tokenizer = Tokenizer.load(kit.DEMO)
    assert tokenizer.vocab_size == 4096
    assert tokenizer.bos_id is None
    assert tokenizer.eos_ids == {0}
    assert tokenizer.pad_id == 0
    assert {0, 1} <= tokenizer.special_ids
    assert tokenizer.token_text(0) == "<|endoftext|>"
    assert tokenizer.token_id("<|endoftext|>") == 0


def test_special_tokens_are_left_out_on_request(llama: Path) -> None:
    tokenizer = Tokenizer.load(llama)
    ids = [1, *tokenizer.encode("hello", add_special_tokens=False), 2]
    assert tokenizer.decode(ids) == "hello"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<s> hello</s>"


def test_eos_that_is_a_plain_added_token_is_special(tmp_path: Path) -> None:
    library = kit.byte_level()
    library.add_tokens(["|||END|||"])
    tokenizer = Tokenizer.load(kit.save(tmp_path, library, eos_token="|||END|||"))
    ids = tokenizer.encode("text|||END|||", add_special_tokens=False)
    assert ids[-1] in tokenizer.eos_ids
    assert tokenizer.decode(ids) == "text"


def test_ids_beyond_the_vocabulary_are_no_text(llama: Path) -> None:
    tokenizer = Tokenizer.load(llama)
    assert tokenizer.decode([tokenizer.vocab_size, 10**9]) == ""
    with pytest.raises(TokenizerError, match="-1"):
        tokenizer.decode([-1])


def test_added_tokens_decode_to_their_own_characters(tmp_path: Path) -> None:
    # Every character of these is also a letter of the byte-level alphabet.
    library = kit.byte_level()
    added = ["café", "Ā", "über ß"]
    library.add_tokens([AddedToken(text, normalized=False) for text in added])
    tokenizer = Tokenizer.load(kit.save(tmp_path, library))
    for text in added:
        ids = tokenizer.encode(f"a {text} b", add_special_tokens=False)
        assert tokenizer.decode(ids) == f"a {text} b"


# The BOS rule


def bos_ids(directory: Path, text: str = "hello") -> list[int]:
    return Tokenizer.load(directory).encode(text, add_special_tokens=True)


def with_template(library: object, template: str = "<s> $A") -> object:
    tokens = [("<s>", 1), ("</s>", 2)]
    library.post_processor = processors.TemplateProcessing(single=template, special_tokens=tokens)  # type: ignore[attr-defined]
    return library


def test_bos_by_post_processor_alone(tmp_path: Path) -> None:
    directory = kit.save(tmp_path, with_template(kit.byte_fallback()))
    assert bos_ids(directory)[0] == 1
    assert bos_ids(directory, "")[0] == 1


def test_bos_by_config_without_post_processor(tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.byte_fallback(), bos_token="<s>", add_bos_token=True)
    assert bos_ids(directory)[:2] == [1, bos_ids(directory)[1]]
    assert bos_ids(directory).count(1) == 1


def test_bos_is_not_doubled(tmp_path: Path) -> None:
    library = with_template(kit.byte_fallback())
    directory = kit.save(tmp_path, library, bos_token="<s>", add_bos_token=True)
    assert bos_ids(directory).count(1) == 1


def test_bos_refused_by_config(tmp_path: Path) -> None:
    library = with_template(kit.byte_fallback(), "<s> $A </s>")
    config = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": False}
    ids = bos_ids(kit.save(tmp_path, library, **config))
    assert 1 not in ids
    assert ids[-1] == 2
    ids = bos_ids(kit.save(tmp_path, library, **config, add_eos_token=False))
    assert 2 not in ids


def test_bos_written_in_the_text_is_the_users(tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.byte_fallback(), bos_token="<s>", add_bos_token=True)
    assert bos_ids(directory, "<s>hello")[:2] == [1, 1]
    directory = kit.save(tmp_path, kit.byte_fallback(), bos_token="<s>", add_bos_token=False)
    assert bos_ids(directory, "<s>hello").count(1) == 1


def test_llama_class_has_bos_by_default(tmp_path: Path) -> None:
    config = {"bos_token": "<s>", "tokenizer_class": "LlamaTokenizerFast"}
    assert bos_ids(kit.save(tmp_path, kit.byte_fallback(), **config))[0] == 1


def test_no_rule_no_bos() -> None:
    tokenizer = Tokenizer.load(kit.DEMO)
    assert tokenizer.encode("x", True) == tokenizer.encode("x", False)


# Bad text, and settings of training that would change ids


@pytest.mark.parametrize("text", ["\ud800", "fine until \udfff here", "\ude00\ud83d"])
def test_half_a_character_is_refused(text: str) -> None:
    with pytest.raises(TokenizerError, match=r"lone surrogate, U\+D"):
        Tokenizer.load(kit.DEMO).encode(text, add_special_tokens=False)


def test_truncation_padding_and_dropout_are_off(tmp_path: Path) -> None:
    library = kit.byte_level()
    plain = library.encode("the words of a text").ids
    library.enable_truncation(4)
    library.enable_padding(length=100)
    directory = kit.save(tmp_path, library)
    kit.edit(directory, lambda data: data["model"].update(dropout=0.9))
    assert Tokenizer.load(directory).encode("the words of a text", True) == plain


# tokenizer_config.json


def test_special_tokens_map_fills_in(tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.byte_fallback())
    older = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}}
    (directory / "special_tokens_map.json").write_text(json.dumps(older))
    tokenizer = Tokenizer.load(directory)
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (1, {2})
    assert tokenizer.named_tokens == {"bos_token": "<s>", "eos_token": "</s>"}


def test_tokens_that_only_the_config_knows(tmp_path: Path) -> None:
    library = kit.byte_level()
    size = library.get_vocab_size()
    entry = {"content": "<|new|>", "special": True}
    directory = kit.save(tmp_path, library, added_tokens_decoder={str(size): entry})
    tokenizer = Tokenizer.load(directory)
    assert tokenizer.encode("a<|new|>", False)[-1] == size
    assert size in tokenizer.special_ids
    assert tokenizer.vocab_size == size + 1
    kit.save(tmp_path, library, added_tokens_decoder={str(size + 5): entry})
    with pytest.raises(TokenizerError, match=r"added_tokens_decoder.*not of one model"):
        Tokenizer.load(directory)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"bos_token": 5}, "bos_token"),
        ({"eos_token": {"content": ["a"]}}, "eos_token"),
        ({"add_bos_token": "yes"}, "add_bos_token"),
        ({"added_tokens_decoder": {"x": {}}}, "added_tokens_decoder"),
        ({"added_tokens_decoder": {"3": {"content": None}}}, "added_tokens_decoder"),
        ({"added_tokens_decoder": []}, None),
        ({"added_tokens_decoder": [1]}, "added_tokens_decoder"),
        ({"additional_special_tokens": "x"}, "additional_special_tokens"),
        ({"add_bos_token": True, "bos_token": "<none>"}, "bos_token"),
        ({"bos_token": None, "eos_token": None, "additional_special_tokens": None}, None),
    ],
)
def test_config_fields_of_the_wrong_type_are_named(
    config: dict[str, object], field: str | None, tmp_path: Path
) -> None:
    directory = kit.save(tmp_path, kit.byte_fallback(), **config)
    if field is None:
        assert Tokenizer.load(directory).bos_id is None
        return
    with pytest.raises(TokenizerError, match=rf"tokenizer_config\.json: .*{field}"):
        Tokenizer.load(directory)


def test_a_long_text_is_judged_by_its_pieces(tmp_path: Path) -> None:
    kit.save(tmp_path, kit.byte_level())
    tokenizer = Tokenizer.load(tmp_path)
    text = "the quick brown fox " * 10_000
    count = len(tokenizer.encode(text, False))
    assert tokenizer.exceeds(text, count - 1000)
    assert not tokenizer.exceeds(text, count)
    assert not tokenizer.exceeds(text[:60_000], 0)
    with pytest.raises(TokenizerError, match="half a character"):
        tokenizer.exceeds(text + "\ud800", 0)
