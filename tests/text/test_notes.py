"""Notes on requests in the log."""

import pytest

from colibri.text.notes import SaidOnce


def test_each_is_said_once_on_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    said = SaidOnce()
    said.warn(["no switch", "", "two\nlines"])
    said.warn(["no switch"])
    assert caplog.messages == ["no switch", "two\ufffdlines"]
    SaidOnce().warn(["no switch"])
    assert caplog.messages.count("no switch") == 2


def test_what_clients_make_up_does_not_fill_memory(caplog: pytest.LogCaptureFixture) -> None:
    said = SaidOnce()
    said.warn(f"variable {n}" for n in range(1000))
    assert len(caplog.messages) == 256
