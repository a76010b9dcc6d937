"""Merges as text, as pairs, from merges.txt, from the ranks, and not at all (B093, B094)."""

import json
from pathlib import Path
from typing import Any

import pytest

from colibri.errors import TokenizerError
from colibri.text.tokenizer import Tokenizer
from text import tokenizer_kit as kit


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_bytes((kit.DEMO / "tokenizer.json").read_bytes())
    return tmp_path


def pairs(directory: Path) -> list[list[str]]:
    merges = json.loads((directory / "tokenizer.json").read_text("utf-8"))["model"]["merges"]
    return [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]


def ids(directory: Path) -> list[list[int]]:
    tokenizer = Tokenizer.load(directory)
    return [tokenizer.encode(text, add_special_tokens=False) for text in kit.NASTY]


def with_model(directory: Path, **fields: Any) -> Path:
    return kit.edit(directory, lambda data: data["model"].update(fields))


def test_strings_and_pairs_are_one_tokenizer(demo: Path) -> None:
    expected, merges = ids(demo), pairs(demo)
    for form in (merges, [" ".join(merge) for merge in merges]):
        assert ids(with_model(demo, merges=form)) == expected


@pytest.mark.parametrize("merges", [[], None])
def test_merges_txt_is_read_when_tokenizer_json_has_none(demo: Path, merges: object) -> None:
    expected = ids(demo)
    lines = ["#version: 0.2", *(" ".join(merge) for merge in pairs(demo)), ""]
    (demo / "merges.txt").write_text("\n".join(lines), "utf-8")
    assert ids(with_model(demo, merges=merges)) == expected


def test_a_bad_line_of_merges_txt_is_named(demo: Path) -> None:
    with_model(demo, merges=[])
    (demo / "merges.txt").write_text("#version: 0.2\nt h\nt zzzzz\n", "utf-8")
    with pytest.raises(TokenizerError, match=r"merges\.txt: line 3"):
        Tokenizer.load(demo)


def test_ranks_give_the_merges_of_a_byte_level_vocabulary(demo: Path) -> None:
    expected = ids(demo)
    assert ids(with_model(demo, merges=[])) == expected


def test_ranks_with_whole_words_first(demo: Path) -> None:
    with_model(demo, merges=[], ignore_merges=True)
    tokenizer = Tokenizer.load(demo)
    assert [tokenizer.decode(i, False) for i in ids(demo)] == list(kit.NASTY)
    assert tokenizer.encode(" the", False) == [tokenizer.token_id("Ġthe")]


def test_a_missing_merges_field(demo: Path) -> None:
    kit.edit(demo, lambda data: data["model"].pop("merges"))
    assert Tokenizer.load(demo).encode("the", False) == Tokenizer.load(kit.DEMO).encode(
        "the", False
    )


def test_merges_of_a_vocabulary_without_ranks_are_asked_for(tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.byte_fallback())
    kit.edit(directory, lambda data: data["model"].update(merges=[]))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: .*put merges\.txt"):
        Tokenizer.load(directory)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"added_tokens": 5}, "added_tokens"),
        ({"added_tokens": [5]}, "added_tokens"),
        ({"model": {"type": "BPE", "vocab": {"a": None}}}, "vocab"),
        ({"model": {"vocab": {"a": "b"}}}, "vocab"),
    ],
)
def test_other_damage_while_merges_are_missing(change: Any, words: str, demo: Path) -> None:
    with_model(demo, merges=[])
    kit.edit(demo, lambda data: data.update(change))
    with pytest.raises(TokenizerError, match=rf"tokenizer\.json: .*{words}"):
        Tokenizer.load(demo)


def test_single_characters_need_no_merges(tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.byte_level())

    def single(data: dict[str, Any]) -> None:
        letters = [token for token in data["model"]["vocab"] if len(token) == 1]
        data["model"].update(vocab={"<s>": 0, "</s>": 1}, merges=[])
        data["model"]["vocab"].update({token: i + 2 for i, token in enumerate(letters)})

    kit.edit(directory, single)
    assert len(Tokenizer.load(directory).encode("words", False)) == 5


def test_a_merge_of_unknown_tokens_is_refused(demo: Path) -> None:
    with_model(demo, merges=[["zzz", "yyy"]])
    with pytest.raises(TokenizerError, match="refuses"):
        Tokenizer.load(demo)
