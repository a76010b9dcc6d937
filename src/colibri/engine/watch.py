"""The step in hand, and whether it is worth going on with: the executor asks this while it waits
for the disk."""

from collections.abc import Sequence

from colibri.engine.request import Request

Share = tuple[Request, int]  # a request and its rows of the step


class Watch:
    def __init__(self) -> None:
        self.stopping = False
        self.beats = 0  # layers that were begun, ever: the engine's sign of progress
        self._shares: Sequence[Share] = ()
        self._layer, self._layers = 0, 1

    def begin(self, shares: Sequence[Share], layers: int) -> None:
        self._shares, self._layer, self._layers = shares, 0, layers
        self.beats += 1

    def enter(self, layer: int) -> bool:
        """Whether somebody may have gone: asked in every layer, so as little as possible."""
        self._layer = layer
        self.beats += 1
        for request, _ in self._shares:  # no property, no generator: each is a call
            if request.cancelled or request.ended or request.deadline is not None:
                return True
        return self.stopping

    def end(self) -> None:
        self._shares = ()
        self.beats += 1

    def cancelled(self) -> bool:
        """Whether to break the step off and do it again without those whom nobody waits for: if
        that saves more of their rows than it costs of the others'."""
        if self.stopping:
            return True
        gone = rows = 0
        for request, share in self._shares:
            rows += share
            if request.unwanted:
                gone += share
        return gone * (self._layers - self._layer) > (rows - gone) * self._layer

    def unwanted(self) -> list[Request]:
        """Those whom nobody waits for."""
        return [request for request, _ in self._shares if request.unwanted]
