"""tokenizer.json that is missing, damaged or another thing: one error that names it, never another
kind.
"""

import json
import os
from pathlib import Path

import pytest

from colibri.errors import TokenizerError
from colibri.text.files import read_bytes, read_object
from colibri.text.tokenizer import Tokenizer
from text import tokenizer_kit as kit

DAMAGE = {
    "empty": (b"", "empty"),
    "blank": (b" \n\n", "empty"),
    "zeros": (bytes(4096), "zeros"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git lfs pull"),
    "html": (b"\n<!DOCTYPE html><html><body>Not found</body></html>", "HTML"),
    "zip": (b"PK\x03\x04\x14\x00", "zip"),
    "gzip": (b"\x1f\x8b\x08\x00", "gzip"),
    "zstd": (b"\x28\xb5\x2f\xfd\x00", "zstd"),
    "bzip2": (b"BZh91AY", "bzip2"),
    "xz": (b"\xfd7zXZ\x00", "xz"),
    "latin-1": ('{"a": "é"}'.encode("latin-1"), "UTF-8 text at byte 7"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "UTF-8"),
    "list": (b"[1]", "list"),
    "no model": (b"{}", "model"),
    "model null": (b'{"model": null}', "model"),
    "deep": (b'{"model":' + b"[" * 100_000, "JSON"),
    "deep closed": (b'{"model":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "JSON"),
    "surrogate": (b'{"model": "\\ud800"}', "JSON|model"),
    "unknown model": (b'{"model": {"type": "Magic", "vocab": {}}}', "refuses"),
    "no vocabulary": (b'{"model": {"type": "BPE"}}', "vocab"),
    "vocabulary is a list": (b'{"model": {"type": "BPE", "vocab": [1]}}', "vocab"),
}


def load_error(directory: Path) -> str:
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(directory)
    return str(caught.value)


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named(kind: str, tmp_path: Path) -> None:
    data, words = DAMAGE[kind]
    (tmp_path / "tokenizer.json").write_bytes(data)
    with pytest.raises(TokenizerError, match=rf"tokenizer\.json: .*({words})"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_of_the_config_is_named(kind: str, tmp_path: Path) -> None:
    data, words = DAMAGE[kind]
    if "model" in kind or "vocab" in kind:
        return  # damage of tokenizer.json only
    kit.save(tmp_path, kit.byte_fallback())
    (tmp_path / "tokenizer_config.json").write_bytes(data)
    if kind == "surrogate":
        words = "JSON"
    with pytest.raises(TokenizerError, match=rf"tokenizer_config\.json: .*({words})"):
        Tokenizer.load(tmp_path)


def test_every_truncation_is_a_clear_error(tmp_path: Path) -> None:
    kit.save(tmp_path, kit.byte_fallback())
    path = tmp_path / "tokenizer.json"
    data = path.read_bytes()
    for size in range(1, len(data.rstrip()) - 1, 397):
        path.write_bytes(data[:size])
        assert "not valid JSON" in load_error(tmp_path)
    assert "cut off" in load_error(tmp_path)


def test_absent_says_what_else_lies_there(tmp_path: Path) -> None:
    assert "there is no tokenizer.json" in load_error(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    assert "tokenizer.model cannot be used" in load_error(tmp_path)
    assert "not a directory" in load_error(tmp_path / "nowhere")


def test_a_directory_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").mkdir()
    assert "cannot be read" in load_error(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    assert "no regular file" in load_error(tmp_path)


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    kit.save(tmp_path, kit.byte_level())
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Tokenizer.load(tmp_path).encode("the", False)


def test_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b" " * 100)
    with pytest.raises(TokenizerError, match="larger than 99 bytes"):
        read_bytes(path, limit=99)


@pytest.mark.parametrize(
    "decoder",
    [
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]},
        {
            "type": "Sequence",
            "decoders": [
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 1},
            ],
        },
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"},
    ],
)
def test_a_decoder_that_is_not_known_is_refused(decoder: object, tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.byte_fallback())
    kit.edit(directory, lambda data: data.update(decoder=decoder))
    assert "decoder" in load_error(directory)


def test_what_would_crash_the_library_is_refused(tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.byte_level())
    kit.edit(directory, lambda data: data["model"].update(continuing_subword_prefix="##"))
    assert "continuing_subword_prefix" in load_error(directory)


def test_an_unknown_word_without_a_token_for_it(tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.words())
    kit.edit(directory, lambda data: data["model"].update(unk_token="nowhere"))
    with pytest.raises(TokenizerError, match="cannot encode"):
        Tokenizer.load(directory).encode("strange", False)


def test_objects_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"a": ["é", None]}), "utf-8")
    assert read_object(path) == {"a": ["é", None]}


def test_a_panic_of_the_library_is_an_error_of_ours(tmp_path: Path) -> None:
    kit.save(tmp_path, kit.byte_level())
    path = tmp_path / "tokenizer.json"
    data = json.loads(path.read_text("utf-8"))
    data["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "absent", "type_id": 0}}],
        "pair": [],
        "special_tokens": {},
    }
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(TokenizerError, match="cannot encode"):
        Tokenizer.load(tmp_path).encode("the", True)
