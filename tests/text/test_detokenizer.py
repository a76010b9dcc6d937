"""Streamed text is decode's text, never half a character (B068)."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colibri.text.detokenizer import IncrementalDetokenizer
from colibri.text.tokenizer import Tokenizer
from text import tokenizer_kit as kit


@pytest.fixture(scope="module", params=[*kit.BUILDERS, "demo"])
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Tokenizer:
    if request.param == "demo":
        return Tokenizer.load(kit.DEMO)
    directory = tmp_path_factory.mktemp("tokenizer")
    return Tokenizer.load(kit.save(directory, kit.BUILDERS[request.param]()))


def deltas(tokenizer: Tokenizer, ids: Iterable[int], **options: bool) -> list[str]:
    detokenizer = IncrementalDetokenizer(tokenizer, **options)
    return [*(detokenizer.push(token) for token in ids), detokenizer.flush()]


def bytes_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of single bytes, as a model may well emit them."""
    table = {tokenizer.token_bytes(i): i for i in reversed(range(tokenizer.vocab_size))}
    return [table[bytes([byte])] for byte in text.encode()]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_deltas_join_to_decode_for_any_ids(tokenizer: Tokenizer, data: st.DataObject) -> None:
    token = st.integers(0, tokenizer.vocab_size + 3)
    ids = data.draw(st.lists(token, max_size=24))
    for skip in (True, False):
        joined = "".join(deltas(tokenizer, ids, skip_special_tokens=skip))
        assert joined == tokenizer.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("text", [text for text in kit.NASTY if text], ids=lambda t: ascii(t[:12]))
@pytest.mark.parametrize("kind", ["byte-level", "byte-fallback"])
def test_single_bytes_stream_without_a_replacement_character(
    kind: str, text: str, tmp_path: Path
) -> None:
    tokenizer = Tokenizer.load(kit.save(tmp_path, kit.BUILDERS[kind]()))
    parts = deltas(tokenizer, bytes_of(tokenizer, text), continues=True)
    assert "".join(parts) == text
    assert not any("\ufffd" in part for part in parts)
    assert parts[-1] == ""  # everything had been shown already


def test_a_character_appears_with_its_last_byte(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(kit.save(tmp_path, kit.byte_fallback()))
    ids = bytes_of(tokenizer, "你a👍")
    assert deltas(tokenizer, ids) == ["", "", "你", "a", "", "", "", "👍", ""]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\xe6\xad", "\ufffd"),  # half a character at the end
        (b"\xe6\xada", "\ufffda"),  # and before another
        (b"\xff\xfea", "\ufffd\ufffda"),
        (b"\xf0\x9f\x91", "\ufffd"),
    ],
)
def test_bytes_that_are_no_text(data: bytes, shown: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(kit.save(tmp_path, kit.byte_fallback()))
    ids = [tokenizer.token_id(f"<0x{byte:02X}>") or 0 for byte in data]
    assert tokenizer.decode(ids) == shown
    assert "".join(deltas(tokenizer, ids)) == shown


def test_the_blank_before_the_first_word(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(kit.save(tmp_path, kit.byte_fallback()))
    ids = [1, *tokenizer.encode("hello world", add_special_tokens=False)]
    assert "".join(deltas(tokenizer, ids)) == "hello world"
    assert "".join(deltas(tokenizer, ids, continues=True)) == " hello world"


def test_two_streams_do_not_mix() -> None:
    tokenizer = Tokenizer.load(kit.DEMO)
    first, second = IncrementalDetokenizer(tokenizer), IncrementalDetokenizer(tokenizer)
    text = "".join(first.push(i) + second.push(i) for i in bytes_of(tokenizer, "é"))
    assert text == "éé"
