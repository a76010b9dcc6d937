"""How much of a guess to act on, learnt from the guesses before it."""

from collections.abc import Sequence

from colibri.experts.base import Guess

LEAST_PRECISION = 0.7  # a wrong read costs less than a missing expert, but not nothing
LEAST_GUESSES = 16  # to judge a rank by
MEMORY = 256  # guesses of a rank, after which older ones count half


class Ranks:
    """The router's first choices are guessed far better than its last: reads the ranks that pay."""

    def __init__(self, k: int) -> None:
        self._guessed = [0] * k
        self._right = [0] * k

    @property
    def trusted(self) -> int:
        """The first so many ranks are to be read. One that has hardly been tried is."""
        for rank, guessed in enumerate(self._guessed):
            if guessed >= LEAST_GUESSES and self._right[rank] < LEAST_PRECISION * guessed:
                return rank
        return len(self._guessed)

    def learn(self, ranked: Sequence[int], guess: Guess) -> None:
        """ranked: the rank of each expert hinted, in the hint's order."""
        for expert, position in guess.absent.items():
            rank = ranked[position]
            self._guessed[rank] += 1
            self._right[rank] += expert in guess.right
            if self._guessed[rank] == MEMORY:
                self._guessed[rank] //= 2
                self._right[rank] //= 2


class Votes:
    """How many rows of a prompt must ask for an expert before it counts as certain.

    A vote is right two times in three, or one in three for some models, and like tokens are wrong
    alike. The votes needed double while more than 2 in 100 guesses prove wrong, and halve after a
    window without. Each prompt forgets half of a mistrust above the first number.
    """

    FEWEST, FIRST, MOST = 8, 16, 256
    PRECISION = 0.98
    WINDOW = 32  # guesses to judge by

    def __init__(self) -> None:
        self.needed = self.FIRST
        self._guessed = self._right = 0

    def begin(self) -> None:
        """A prompt begins."""
        if self.needed > self.FIRST:
            self._need(self.needed // 2)

    def learn(self, guess: Guess) -> None:
        self._guessed += len(guess.absent)
        self._right += len(guess.right)
        wrong = self._guessed - self._right
        if wrong > (1 - self.PRECISION) * max(self._guessed, self.WINDOW):
            self._need(min(2 * self.needed, self.MOST))
        elif self._guessed >= self.WINDOW:
            self._need(max(self.needed // 2, self.FEWEST) if not wrong else self.needed)

    def _need(self, votes: int) -> None:
        self.needed = votes
        self._guessed = self._right = 0
