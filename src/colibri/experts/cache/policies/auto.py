"""Which policy `auto` is: by how hard the cache is pressed, as replays say (docs/cache.md)."""

import math
from collections.abc import Mapping, Sequence

# Up to which ratio of slots a layer to the experts that a token wants of it, which policy; the
# ratios ascend. The replays gave one policy the best hit rate, or one within noise of it, at every
# ratio, so there is one row.
BY_RATIO: Sequence[tuple[float, str]] = ((math.inf, "lfru"),)


def ratio(slots: Mapping[int, int], wanted: int) -> float:
    """slots: by layer. wanted: experts that a token wants of all layers."""
    return sum(slots.values()) / max(1, wanted)


def resolve(name: str, slots_per_wanted: float) -> str:
    """The policy's name, which auto only stands for. slots_per_wanted: as ratio() gives it. The
    policy stays if the cache is resized."""
    if name != "auto":
        return name
    return next(policy for highest, policy in BY_RATIO if slots_per_wanted <= highest)
