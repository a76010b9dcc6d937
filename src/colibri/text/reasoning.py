"""Reasoning and answer, told apart while the text streams."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from colibri.text.cursor import Cursor, EndOfText, Reading

_BLANKS = re.compile(r"\s*")
_NEWLINES = re.compile(r"\n*")


@dataclass(frozen=True)
class Reasoning:
    text: str


@dataclass(frozen=True)
class Content:
    text: str


Piece = Reasoning | Content
Pieces = Iterator[Piece | None]


@dataclass(frozen=True)
class Tags:
    """What a model writes around its reasoning. One pair for a model."""

    open: str
    close: str

    def state(self, prompt: str) -> bool | None:
        """How a rendered prompt leaves off: True inside the reasoning, False after it, None when
        the model itself decides whether to begin it."""
        end = prompt.rstrip()
        return True if end.endswith(self.open) else False if end.endswith(self.close) else None

    def closed(self, prompt: str) -> str:
        """For an answer that comes at once, also where the template always begins a reasoning: it
        is ended, empty, on lines of its own if its beginning has one."""
        if not self.state(prompt):
            return prompt
        return prompt + (self.close if prompt.endswith(self.open) else f"\n{self.close}\n\n")


THINK = Tags("<think>", "</think>")
_KNOWN = (
    THINK,
    Tags("<thinking>", "</thinking>"),
    Tags("<thought>", "</thought>"),
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    Tags("<seed:think>", "</seed:think>"),
    Tags("[THINK]", "[/THINK]"),
)


def tags_of(template: str) -> Tags | None:
    """The pair that a chat template's source names; None: its model does not reason.

    It need not name both: one that begins the reasoning may leave the end to the model. That a
    vocabulary has such tokens says nothing; models that never reason share it with those that do.
    """
    both = [tags for tags in _KNOWN if tags.open in template and tags.close in template]
    either = [tags for tags in _KNOWN if tags.open in template or tags.close in template]
    return next(iter(both + either), None)


class ReasoningSplitter(Reading[Piece]):
    """`inside`: the tags' state of the prompt.

    One block of reasoning at most: it ends at the first closing tag, and tags after it are text.
    Before it an opening tag in code is text. Unterminated reasoning stays reasoning. Line breaks
    around the tags belong to neither side. `extent`: where the reasoning stands.
    """

    def __init__(self, inside: bool | None, tags: Tags = THINK) -> None:
        self.extent = Extent()
        super().__init__(lambda cursor: _split(cursor, inside, tags, self.extent))


@dataclass
class Extent:
    """Of the reasoning in the text, tags included, in characters. begin None: there is none (yet);
    end None: it goes on."""

    begin: int | None = None
    end: int | None = None


def _split(cursor: Cursor, inside: bool | None, tags: Tags, extent: Extent) -> Pieces:
    try:
        if inside is None:
            yield from _before(cursor, tags)
            extent.begin = cursor.position - len(tags.open)
        if inside is not False:
            extent.begin = extent.begin or 0
            yield from _reasoning(cursor, tags)
            extent.end = cursor.position
        yield from cursor.word(_NEWLINES)
        while True:
            if text := cursor.rest():
                yield Content(text)
            yield from cursor.more()
    except EndOfText:
        return


def _before(cursor: Cursor, tags: Tags) -> Pieces:
    """Returns behind the opening tag. Blanks at the start are text only if text follows."""
    blanks, code = "", _Code()
    try:
        blanks = yield from cursor.word(_BLANKS)
        while True:
            for piece in cursor.pieces(str, tags.open):
                if piece is None:
                    yield None
                    continue
                code.feed(piece)
                yield Content(blanks + piece)
                blanks = ""
            if not code.inside:
                return
            yield Content(tags.open)
    except EndOfText:
        if left := blanks + cursor.rest():
            yield Content(left)
        raise


class _Code:
    """Whether text so far ends within code: after a backtick, or in a fenced block."""

    def __init__(self) -> None:
        self._fences, self._ticks = 0, ""

    def feed(self, piece: str) -> None:
        text = self._ticks + piece
        before = text.rstrip("`")
        self._fences += before.count("```")
        self._ticks = text[len(before) :]

    @property
    def inside(self) -> bool:
        return bool(self._ticks) or self._fences % 2 == 1


def _reasoning(cursor: Cursor, tags: Tags) -> Pieces:
    """Returns behind the closing tag. A model may repeat the tag that its prompt ends with."""
    held = ""
    try:
        yield from cursor.word(_BLANKS)
        if (yield from cursor.optional(tags.open)):
            yield from cursor.word(_BLANKS)
        for piece in cursor.pieces(str, tags.close):
            if piece is None:
                yield None
                continue
            shown = (held + piece).rstrip("\n")
            held = (held + piece)[len(shown) :]
            if shown:
                yield Reasoning(shown)
    except EndOfText:
        if left := held + cursor.rest():
            yield Reasoning(left)
        raise
