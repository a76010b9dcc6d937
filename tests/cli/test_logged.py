"""What the library logs, as a command's lines."""

import logging

import pytest

from colibri.cli.loading import show_warnings


def test_a_fault_of_ours_is_logged_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    """The server's 500 says that its log says more."""
    logger = logging.getLogger("colibri")
    before = logger.handlers, logger.propagate, logger.level
    try:
        show_warnings()
        try:
            raise ValueError("of this kind")
        except ValueError as error:
            logging.getLogger("colibri.server").error("internal error", exc_info=error)
        logging.getLogger("colibri.server").warning("no fault")
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])
    said = capsys.readouterr().err
    assert said.startswith("coli: error: internal error\nTraceback (most recent call last):\n")
    assert 'raise ValueError("of this kind")' in said
    assert said.endswith("ValueError: of this kind\ncoli: warning: no fault\n")
