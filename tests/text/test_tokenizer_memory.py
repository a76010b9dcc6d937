"""What a tokenizer takes is known before it is loaded, and no more than the library needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from colibri.errors import TokenizerError
from colibri.text.eos import read_eos
from colibri.text.pieces import KEPT_PIECES
from colibri.text.tokenizer import Tokenizer
from colibri.text.tokenizermemory import (
    NO_TOKENIZER,
    TokenizerMemory,
    memory_by_vocabulary,
    memory_of,
)
from text import tokenizer_kit as kit

MB = 1_000_000
LOAD = """
import sys
from pathlib import Path
from colibri.hardware import probe
from colibri.hardware.allocator import give_back
from colibri.text.tokenizer import Tokenizer
from colibri.text.tokenizermemory import memory_of

DIGITS = str.maketrans("0123456789", "ghijklmnop")  # words of letters
directory = Path(sys.argv[1])
memory_of(directory)
give_back()
before = probe.rss_bytes()
Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
tokenizer = Tokenizer.load(directory)
loaded, most = probe.rss_bytes() - before, probe.peak_rss_bytes() - before
for token_id in range(tokenizer.vocab_size):
    tokenizer.token_bytes(token_id)
for first in range(0, 12_000, 1000):
    words = (f"{n * 7919:x}".translate(DIGITS) for n in range(first, first + 1000))
    tokenizer.encode(" ".join(words), add_special_tokens=False)
give_back()
print(loaded, most, probe.rss_bytes() - before)
"""
STRUCTURES = """
import sys
from pathlib import Path
import numpy
import colibri.grammar
from colibri.hardware import probe
from colibri.hardware.allocator import give_back
from colibri.text.tokenizer import Tokenizer

tokenizer = Tokenizer.load(Path(sys.argv[1]))
for token_id in range(tokenizer.vocab_size):
    tokenizer.token_bytes(token_id)
give_back()
before = probe.rss_bytes()
Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
from colibri.grammar.structure import Structure
from colibri.grammar.grammars import Grammars

Grammars(tokenizer, frozenset()).compiled(Structure("regex", "[a-z]+"))
print(probe.peak_rss_bytes() - before)
"""


def loaded(directory: Path) -> tuple[int, int, int]:
    """Bytes that a fresh process has more, had more at most, and has when it worked for long."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(directory)], capture_output=True, text=True, check=True
    )
    now, most, later = done.stdout.split()
    return int(now), int(most), int(later)


def check(directory: Path) -> None:
    said, (now, most, later) = memory_of(directory), loaded(directory)
    assert said.loaded == pytest.approx(now, rel=0.12, abs=3 * MB)
    assert later - 3 * MB < said.held < later + max(0.15 * later, 6 * MB)
    assert said.loading == pytest.approx(most, rel=0.12, abs=6 * MB)


@pytest.mark.parametrize(
    ("entries", "pairs"),
    [(20_000, True), (57_000, False), (58_000, False), (116_000, True)],
    ids=["small", "before a table doubles", "after", "large"],
)
def test_the_memory_is_told_from_the_file(tmp_path: Path, entries: int, pairs: bool) -> None:
    check(kit.write_large(tmp_path, entries, pairs=pairs))


@pytest.mark.parametrize("name", kit.REAL)
def test_that_of_real_ones_too(tmp_path: Path, name: str) -> None:
    check(kit.real(name, tmp_path))


@pytest.mark.parametrize("entries", [4_000, 57_000])
def test_that_of_structures_too(tmp_path: Path, entries: int) -> None:
    directory = kit.write_large(tmp_path, entries)
    done = subprocess.run(
        [sys.executable, "-c", STRUCTURES, str(directory)],
        capture_output=True,
        text=True,
        check=True,
    )
    said, most = memory_of(directory).structures, int(done.stdout)
    assert most - 3 * MB < said < 1.4 * most + 3 * MB


def test_tokens_are_kept_up_to_a_bound_and_stay_the_same(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(kit.write_large(tmp_path, 20_000))
    once = [tokenizer.token_bytes(n) for n in range(tokenizer.vocab_size)]
    assert len(once) > 2 * KEPT_PIECES
    assert len(tokenizer._kept) <= KEPT_PIECES
    for n in range(10**6, 10**6 + 2 * KEPT_PIECES):  # rows of a model's head beyond it
        assert tokenizer.token_bytes(n) == b""
        assert len(tokenizer._kept) <= KEPT_PIECES
    assert [tokenizer.token_bytes(n) for n in range(tokenizer.vocab_size)] == once


def test_merges_that_must_be_found_take_more(tmp_path: Path) -> None:
    directory = kit.write_large(tmp_path, 30_000)
    with_merges = memory_of(directory)
    kit.edit(directory, lambda data: data["model"].update(merges=[]))
    said = memory_of(directory)
    assert said.loading > with_merges.loading
    now, most, later = loaded(directory)
    assert now < said.loaded * 1.2
    assert later < said.held * 1.2
    assert most < said.loading * 1.2


@pytest.mark.parametrize("build", kit.BUILDERS)
def test_every_kind_has_a_memory(build: str, tmp_path: Path) -> None:
    said = memory_of(kit.save(tmp_path, kit.BUILDERS[build]()))
    assert 2 * MB < said.loaded < said.loading < 4 * MB
    assert said.held < 7 * MB


def test_none_takes_nothing_and_a_damaged_one_is_an_error(tmp_path: Path) -> None:
    assert memory_of(tmp_path) == NO_TOKENIZER
    assert memory_of(tmp_path) == TokenizerMemory(source="none is loaded")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: not valid JSON"):
        memory_of(tmp_path)


def test_one_that_is_not_here_is_taken_for_a_large_one(tmp_path: Path) -> None:
    here = memory_of(kit.write_large(tmp_path, 50_000))
    assert memory_by_vocabulary(50_000).held >= here.held * 0.95
    assert "not here" in memory_by_vocabulary(50_000).source


@pytest.mark.parametrize("token", ["</s>", "the", {"content": "</s>"}, None, "nowhere"])
def test_the_end_of_a_text_is_told_without_loading(token: object, tmp_path: Path) -> None:
    directory = kit.save(tmp_path, kit.byte_level(), eos_token=token)
    assert read_eos(directory).eos_ids == Tokenizer.load(directory).eos_ids


@pytest.mark.parametrize(("added", "ids"), [({}, set()), ({"3": {"content": "<end>"}}, {3})])
def test_an_end_of_which_only_the_config_knows(
    added: dict[str, object], ids: set[int], tmp_path: Path
) -> None:
    directory = kit.save(tmp_path, kit.words(), eos_token="<end>", added_tokens_decoder=added)
    assert read_eos(directory).eos_ids == Tokenizer.load(directory).eos_ids == ids


@pytest.mark.parametrize("ids", [[0, 1, 2], [0, 1, 7], [3, 1, 2]])
def test_the_largest_id_counts_where_ids_are_left_out(ids: list[int], tmp_path: Path) -> None:
    vocab = dict(zip(("<unk>", "big", "cat"), ids, strict=True))
    directory = kit.save(tmp_path, kit.words())
    kit.edit(directory, lambda data: data["model"].update(vocab=vocab))
    assert Tokenizer.load(directory).vocab_size == max(ids) + 1
