"""Text that arrives in pieces, read by generators: they yield None where they wait for more."""

import re
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
Event = TypeVar("Event")
Wait = Generator[None, None, None]
Reads = Generator[None, None, str]


class Unexpected(Exception):
    """What stands there is not what the format says."""


class EndOfText(Unexpected):
    """No more comes, and the format is not at its end."""


class Cursor:
    """Where reading is. What its methods do depends on the text, never on how it was cut."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._dropped = 0
        self._mark: int | None = None
        self.closed = False

    def feed(self, text: str) -> None:
        if self._mark is None:  # what was read is not needed again
            self._dropped += self._at
            self._text, self._at = self._text[self._at :], 0
        self._text += text

    @property
    def position(self) -> int:
        """Characters taken so far."""
        return self._dropped + self._at

    def mark(self) -> None:
        """From here on what is read is kept, until `release`."""
        self._mark = self._at

    def release(self) -> None:
        self._mark = None

    def since_mark(self) -> str:
        """What was read since the mark; when no more comes, all that was given."""
        if self.closed:
            self._at = len(self._text)
        return self._text[self._mark : self._at]

    def rest(self) -> str:
        """What is left, taken."""
        start, self._at = self._at, len(self._text)
        return self._text[start:]

    def more(self) -> Wait:
        if self.closed:
            raise EndOfText
        yield None

    def pieces(self, form: Callable[[str], T], *tags: str) -> Generator[T | None, None, str]:
        """form(text) of the text up to the first of the tags, piece by piece; returns that tag,
        which is taken too."""
        while True:
            found = [(at, tag) for tag in tags if (at := self._text.find(tag, self._at)) >= 0]
            end, tag = min(found, default=(len(self._text) - self._undecided(tags), ""))
            if end > self._at:
                start, self._at = self._at, end
                yield form(self._text[start:end])
            if tag:
                self._at = end + len(tag)
                return tag
            yield from self.more()

    def until(self, *tags: str) -> Generator[None, None, tuple[str, str]]:
        """The text up to the first of the tags, and that tag, which is taken too."""
        parts: list[str] = []
        pieces = self.pieces(str, *tags)
        while True:
            try:
                piece = next(pieces)
            except StopIteration as stop:
                return "".join(parts), stop.value
            if piece is None:
                yield None
            else:
                parts.append(piece)

    def expect(self, *tags: str) -> Reads:
        """Which of the tags stands here."""
        while True:
            for tag in tags:
                if self._text.startswith(tag, self._at):
                    self._at += len(tag)
                    return tag
            if not any(tag.startswith(self._text[self._at :]) for tag in tags):
                raise Unexpected
            yield from self.more()

    def optional(self, tag: str) -> Generator[None, None, bool]:
        """Whether the tag stands here; it is taken then."""
        try:
            yield from self.expect(tag)
        except Unexpected:
            return False
        return True

    def stands(self, *tags: str) -> Generator[None, None, bool]:
        """Whether one of the tags, each a character, stands here; it is left there."""
        while self._at == len(self._text):
            yield from self.more()
        return self._text.startswith(tags, self._at)

    def word(self, characters: re.Pattern[str]) -> Reads:
        """As many characters as match, perhaps none. `characters`: a pattern like [a-z]*."""
        parts: list[str] = []
        while True:
            match = characters.match(self._text, self._at)
            if match:
                parts.append(match[0])
                self._at = match.end()
            if self._at < len(self._text):
                return "".join(parts)
            yield from self.more()

    def take(self) -> Reads:
        """One character."""
        while self._at == len(self._text):
            yield from self.more()
        self._at += 1
        return self._text[self._at - 1]

    def _undecided(self, tags: tuple[str, ...]) -> int:
        """Length of the longest end of the text that may begin a tag."""
        left = len(self._text) - self._at
        for length in range(min(max(map(len, tags)) - 1, left), 0, -1):
            if any(tag.startswith(self._text[-length:]) for tag in tags):
                return length
        return 0


class Reading(Generic[Event]):
    """feed(text) gives the events that are certain by now; finish() the others."""

    def __init__(self, read: Callable[[Cursor], Iterator[Event | None]]) -> None:
        self._cursor = Cursor()
        self._events = read(self._cursor)

    def feed(self, text: str) -> list[Event]:
        self._cursor.feed(text)
        return self._step()

    def finish(self) -> list[Event]:
        self._cursor.closed = True
        return self._step()

    def _step(self) -> list[Event]:
        events: list[Event] = []
        for event in self._events:
            if event is None:
                break
            events.append(event)
        return events
