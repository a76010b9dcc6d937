"""How much of a prompt a step takes while answers wait for the step's end."""

from dataclasses import dataclass

_LONGEST = 0.5  # seconds that a step should take at most,
_DECODES = 4  # or so many steps without a prompt, where those take long
_COST = 2.0  # how many times a whole chunk's time a token may cost for it
_FIRST, _FEWEST = 128, 16  # rows: before anything is known, and of any chunk
_MEMORY = 0.8  # weight of what was known, at each new observation
_SPREAD = 0.05  # of the rows, below which a line through them means nothing


@dataclass
class Pace:
    """A chunk is cut so that answers go on, but never so short that its prompt would cost more than
    twice: where experts are read from disk, few rows ask for nearly as many as many rows do.

    Observed chunks are fitted by seconds = fixed + each * rows; where all are of one size, what was
    last known of the fixed share holds. whole: rows of an uncut chunk.
    """

    whole: int
    decode_seconds: float = 0.0
    _share: float = 0.0
    _weight: float = 0.0
    _rows: float = 0.0
    _seconds: float = 0.0
    _rows_rows: float = 0.0
    _rows_seconds: float = 0.0

    def decoded(self, seconds: float) -> None:
        """A step without a prompt."""
        known = self.decode_seconds or seconds
        self.decode_seconds = _MEMORY * known + (1 - _MEMORY) * seconds

    def read(self, rows: int, seconds: float) -> None:
        """A step with so many rows of prompts."""
        self._weight = _MEMORY * self._weight + 1
        self._rows = _MEMORY * self._rows + rows
        self._seconds = _MEMORY * self._seconds + seconds
        self._rows_rows = _MEMORY * self._rows_rows + rows * rows
        self._rows_seconds = _MEMORY * self._rows_seconds + rows * seconds

    @property
    def chunk(self) -> int:
        """Rows of prompts beside answers."""
        most = self.whole
        if not self._weight:
            return min(_FIRST, most)
        fixed, each = self._line()
        target = max(_LONGEST, _DECODES * self.decode_seconds)
        timely = (target - fixed) / each if each > 0 else float(most)
        # (fixed + each * n) / n = _COST * (fixed + each * most) / most
        dearest = _COST * (fixed + each * most) / most - each
        cheap = fixed / dearest if dearest > 0 else 0.0
        return min(most, max(_FEWEST, int(timely), int(cheap)))

    def _line(self) -> tuple[float, float]:
        rows, seconds = self._rows / self._weight, self._seconds / self._weight
        spread = self._rows_rows / self._weight - rows * rows
        if spread >= (_SPREAD * rows) ** 2:
            each = (self._rows_seconds / self._weight - rows * seconds) / spread
            self._share = min(max(1 - each * rows / seconds, 0.0), 1.0)
        return self._share * seconds, (1 - self._share) * seconds / rows
