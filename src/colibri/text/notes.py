"""Notes on requests, for whoever reads the log: each is said once."""

import logging
from collections.abc import Iterable

logger = logging.getLogger("colibri")

_MOST = 256  # they name what clients made up, of which there is no end


class SaidOnce:
    """Warns of each note the first time, and of no more than so many."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warn(self, notes: Iterable[str]) -> None:
        for note in notes:
            if note and note not in self._said and len(self._said) < _MOST:
                self._said.add(note)
                logger.warning("%s", "".join(c if c.isprintable() else "\ufffd" for c in note))
