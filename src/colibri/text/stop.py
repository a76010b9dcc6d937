"""Stop strings in streamed text: it ends before the stop, and no part of a stop is ever shown."""

from collections.abc import Sequence

from colibri.errors import ConfigError


class StopMatcher:
    """push(text) -> (text to show, stopped). What may be the beginning of a stop is held back until
    it is decided.

    The stop that is complete first wins, the longest of those that end there; so the result does
    not depend on how the text was cut into pieces. `matched` names it.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ConfigError("stop: an empty string cannot be a stop string; leave it out")
        self._stops = tuple(stops)
        self._longest = max(map(len, stops), default=0)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> tuple[str, bool]:
        if self.matched is not None:
            return "", True
        text = self._held + text
        if found := self._find(text):
            end, self.matched = found
            self._held = ""
            return text[: end - len(self.matched)], True
        keep = self._undecided(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def flush(self) -> str:
        """The held text: no more comes, so it is no stop."""
        text, self._held = self._held, ""
        return text

    def _find(self, text: str) -> tuple[int, str] | None:
        ends = [(at + len(stop), stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        return min(ends, key=lambda found: (found[0], -len(found[1])), default=None)

    def _undecided(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            tail = text[len(text) - length :]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0
