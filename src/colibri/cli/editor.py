"""The input line of `coli chat`: history, pastes of several lines as one message."""

from __future__ import annotations

from collections.abc import Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


def read_messages() -> Iterator[str]:
    """Messages until Ctrl-D; Ctrl-C clears the line. The history lives as long as the program:
    what people type to a model is not written to disk unasked."""
    session: PromptSession[str] = PromptSession("> ", key_bindings=_new_line_keys())
    while True:
        try:
            yield session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _new_line_keys() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
