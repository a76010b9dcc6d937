"""Where the time of a step goes: layers say which phase begins, a clock of the bench listens."""

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.layer import Moment

Phase = Literal[
    "attention", "dense", "route", "experts", "shared_expert", "head", "sampling", "other"
]


class Clock(Protocol):
    """Told by the thread that runs the model; a phase lasts until the next one begins."""

    def begin(self, prefill: bool, rows: int) -> None:
        """A step begins: a token of every answer, and with `prefill` chunks of prompts beside."""
        ...

    def enter(self, phase: Phase, layer: int | None = None, at: Moment | None = None) -> None:
        """The phase that begins. `layer` None: the same as before; -1: outside the layers. `at`:
        the moment of its beginning, if that was within the native call that has just ended; None:
        now."""
        ...

    def walked(self, layers: Sequence[int], moments: NDArray[np.int64]) -> None:
        """These layers' attention, route and experts began at moments [layers, 3, 2]."""
        ...

    def end(self) -> None:
        """The step is over, however it ended."""
        ...


class NoClock:
    """Of an ordinary run."""

    def begin(self, prefill: bool, rows: int) -> None:
        pass

    def enter(self, phase: Phase, layer: int | None = None, at: Moment | None = None) -> None:
        pass

    def walked(self, layers: Sequence[int], moments: NDArray[np.int64]) -> None:
        pass

    def end(self) -> None:
        pass


NO_CLOCK = NoClock()
