"""Reasoning and answer: the same two texts, however the stream was cut."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.text.assemble import TextAssembler
from colibri.text.parts import AnswerParser
from colibri.text.reasoning import (
    THINK,
    Content,
    Reasoning,
    ReasoningSplitter,
    Tags,
    tags_of,
)
from colibri.text.tokenizer import Tokenizer
from text.chat_kit import cuts, every_cut, joined

R, C = Reasoning, Content


@pytest.mark.parametrize(
    ("inside", "text", "expected"),
    [
        (None, "<think>why</think>so", [R("why"), C("so")]),
        (None, "<think>\nwhy\nnot\n</think>\n\nso\n", [R("why\nnot"), C("so\n")]),
        (None, "\n\n<think>why</think>so", [R("why"), C("so")]),
        (None, "first <think>why</think>so", [C("first "), R("why"), C("so")]),
        (None, "no tags, a < b <thin", [C("no tags, a < b <thin")]),
        (None, "  indented", [C("  indented")]),
        (None, "<think>never ends\n", [R("never ends\n")]),
        (None, "<think>never ends</thi", [R("never ends</thi")]),
        (None, "<think></think>", []),
        (None, "<think>\n\n</think>\n\nso", [C("so")]),
        (None, "", []),
        (None, "use `<think>` here", [C("use `<think>` here")]),
        (None, "```\n<think>x</think>\n```", [C("```\n<think>x</think>\n```")]),
        (None, "```\na\n```\n<think>x</think>y", [C("```\na\n```\n"), R("x"), C("y")]),
        (True, "why</think>so", [R("why"), C("so")]),
        (True, "\nwhy", [R("why")]),
        (True, "<think>\nwhy</think>so", [R("why"), C("so")]),
        (True, "a <think> b</think>so", [R("a <think> b"), C("so")]),
        (True, "a</think>b</think>c<think>d", [R("a"), C("b</think>c<think>d")]),
        (True, "</think>so", [C("so")]),
        (False, "so <think>is</think> this", [C("so <think>is</think> this")]),
        (False, "\nso", [C("so")]),
    ],
)
def test_every_cut_gives_the_same(inside: bool | None, text: str, expected: object) -> None:
    for pieces in every_cut(text):
        assert joined(ReasoningSplitter(inside), pieces) == expected


PARTS = ["<think>", "</think>", "<thi", "nk>", "`", "```", "\n", " ", "word", "<"]


@given(st.data())
def test_any_text_any_cut(data: st.DataObject) -> None:
    text = "".join(data.draw(st.lists(st.sampled_from(PARTS), max_size=12)))
    inside = data.draw(st.sampled_from([None, True, False]))
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    whole = joined(ReasoningSplitter(inside), [text])
    assert joined(ReasoningSplitter(inside), cuts(text, places)) == whole
    kept = "".join(event.text for event in whole)
    assert without_tags(kept) == without_tags(text)


def without_tags(text: str) -> str:
    """Nor those that only come about where another was cut out; nor blanks."""
    text = "".join(text.split())
    while (shorter := text.replace("<think>", "").replace("</think>", "")) != text:
        text = shorter
    return text


def test_reasoning_comes_as_it_is_made() -> None:
    splitter = ReasoningSplitter(True)
    assert splitter.feed("one ") == [R("one ")]
    assert splitter.feed("two </") == [R("two ")]
    assert splitter.feed("b>") == [R("</b>")]
    assert splitter.feed("</think>\n\nso") == [C("so")]
    assert splitter.feed(" it is") == [C(" it is")]


@pytest.mark.parametrize(
    ("prompt", "state"),
    [
        ("<|assistant|><think>", True),
        ("<|im_start|>assistant\n<think>\n", True),
        ("<|assistant|><think></think>", False),
        ("<think>\n\n</think>\n\n", False),
        ("<think>a</think>b<|im_start|>assistant\n", None),
    ],
)
def test_the_prompt_tells_where_the_answer_begins(prompt: str, state: bool | None) -> None:
    assert THINK.state(prompt) is state


@pytest.mark.parametrize(
    ("prompt", "ended"),
    [
        ("<|assistant|><think>", "<|assistant|><think></think>"),
        ("<|im_start|>assistant\n<think>\n", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("<|assistant|><think></think>\n", "<|assistant|><think></think>\n"),
        ("<|assistant|>", "<|assistant|>"),
    ],
)
def test_a_reasoning_that_the_prompt_begins_is_closed(prompt: str, ended: str) -> None:
    assert THINK.closed(prompt) == ended


class Bytes:
    """A tokenizer with a token a byte."""

    special_ids: frozenset[int] = frozenset()
    start_strip = (b"", 0)

    def token_bytes(self, token_id: int, *, first: bool = False) -> bytes:
        return bytes([token_id])


@pytest.mark.parametrize("stop", [(), ("\n\n",), ("END",)])
@pytest.mark.parametrize(
    ("inside", "before", "reasoning", "after"),
    [
        (True, "", "so, 你好 😀</think>", "\n😀 </think>"),
        (True, "", "<think> twice</think>", "x"),
        (True, "", "never ends 😀", ""),
        (True, "", "", ""),
        (None, "\n 😀 ", "<think>\n...\n</think>", "a"),
        (None, "`<think>` ", "<think></think>", ""),
        (None, "```\n<think>\n```\n", "<think>a", ""),
        (None, "none <thin", "", ""),
        (False, "<think>a</think>", "", ""),
    ],
)
def test_tokens_of_the_reasoning(
    inside: bool | None, before: str, reasoning: str, after: str, stop: tuple[str, ...]
) -> None:
    parser = AnswerParser(ReasoningSplitter(inside), None)
    text = TextAssembler(cast(Tokenizer, Bytes()), stop, True, parser)
    for byte in (before + reasoning + after).encode():
        text.push(byte)
        if text.stopped:
            break
    text.finish()
    assert text.reasoning_tokens == len(reasoning.encode())


PAIRS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
]


@pytest.mark.parametrize(("begin", "end"), PAIRS)
def test_each_known_pair(begin: str, end: str) -> None:
    tags = Tags(begin, end)
    for template in (f"... {begin}", f"{{{{ x.split('{end}') }}}}", f"{begin} <think> {end}"):
        assert tags_of(template) == tags
    assert (tags.state(f"[a]{begin}\n"), tags.state(f"{begin}{end}"), tags.state("")) == (
        True,
        False,
        None,
    )
    assert tags.closed(f"[a]{begin}\n") == f"[a]{begin}\n\n{end}\n\n"
    other = "</think>" if begin != "<think>" else "</thinking>"
    for inside, text in ((True, ""), (None, begin), (True, begin)):
        for pieces in every_cut(f"{text}a{other}b{end}c"):
            splitter = ReasoningSplitter(inside, tags)
            assert joined(splitter, pieces) == [R(f"a{other}b"), C("c")]


@pytest.mark.parametrize("template", ["", "{{ thinking }}", "THINK", "<thin>", "enable_thinking"])
def test_a_template_that_names_no_tag(template: str) -> None:
    assert tags_of(template) is None
