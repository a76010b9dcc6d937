"""A paste is text: a message that begins with one is no command, whatever its first character."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prompt_toolkit import PromptSession
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys


class Pastes:
    """Which of the editor's lines begin with a paste: the new one, or one of the history that the
    arrow keys have led to. Such a line stays text until it is emptied.

    A line is told by its distance from the new one, since the editor's own index of it moves while
    the history is being loaded.
    """

    def __init__(self) -> None:
        self._line = self._index = 0
        self._pasted: set[int] = set()

    def watch(self, session: PromptSession[str]) -> None:
        """The keys of this editor."""
        self._buffer = session.default_buffer
        session.app.key_processor.before_key_press += self._before_key
        session.app.key_processor.after_key_press += self._after_key

    def begin(self) -> None:
        """The editor is empty."""
        self._line = 0
        self._pasted.clear()

    def bind(self, bindings: KeyBindings) -> None:
        @bindings.add(Keys.BracketedPaste)
        def _paste(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer is self._buffer and not buffer.document.text_before_cursor.strip():
                self._pasted.add(self._line)
            buffer.insert_text(event.data.replace("\r\n", "\n").replace("\r", "\n"))

    def as_typed(self, text: str) -> str:
        """What one would type for the line's message."""
        return f"/{text}" if self._line in self._pasted and text.startswith("/") else text

    def _before_key(self, _keys: object) -> None:
        self._index = self._buffer.working_index

    def _after_key(self, _keys: object) -> None:
        self._line += self._buffer.working_index - self._index
        if not self._buffer.text:
            self._pasted.discard(self._line)


class TypedHistory(History):
    """Keeps each message in the form in which it is typed, so that it means the same again."""

    def __init__(self, kept: History, as_typed: Callable[[str], str]) -> None:
        super().__init__()
        self._kept, self._as_typed = kept, as_typed

    def load_history_strings(self) -> Iterable[str]:
        return self._kept.load_history_strings()

    def append_string(self, string: str) -> None:
        super().append_string(self._as_typed(string))

    def store_string(self, string: str) -> None:
        self._kept.store_string(string)
