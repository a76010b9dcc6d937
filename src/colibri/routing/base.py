"""How router logits become a choice of experts."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]


class Router(Protocol):
    def route(self, logits: F32) -> tuple[I32, F32]:
        """logits [tokens, experts] -> topk_ids, topk_weights [tokens, k], best first, ties to the
        lower id."""
        ...
