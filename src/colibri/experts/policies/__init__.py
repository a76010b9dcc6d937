"""Cache policies: which resident expert is given up first. One file each."""

from collections.abc import Callable

from colibri.errors import ConfigError
from colibri.experts.base import CachePolicy
from colibri.experts.policies.lfru import LeastFrequentlyRecentlyUsed
from colibri.experts.policies.lru import LeastRecentlyUsed
from colibri.experts.policies.s3fifo import S3Fifo
from colibri.experts.policies.slru import SegmentedLRU
from colibri.experts.policies.tglru import TemporalGroups

POLICIES: dict[str, Callable[[], CachePolicy]] = {
    "lru": LeastRecentlyUsed,
    "slru": SegmentedLRU,
    "lfru": LeastFrequentlyRecentlyUsed,
    "s3fifo": S3Fifo,
    "tglru": TemporalGroups,
}


def make_policy(name: str, slots_per_token: float = 1.0) -> CachePolicy:
    """name: of POLICIES, or auto. slots_per_token: slots a layer / experts a token wants of it.

    Raises ConfigError for a name that is none.
    """
    name = auto_policy(slots_per_token) if name == "auto" else name
    if name not in POLICIES:
        known = ", ".join(("auto", *POLICIES))
        raise ConfigError(f"cache policy {name!r} is unknown; there is: {known}")
    return POLICIES[name]()


def auto_policy(slots_per_token: float) -> str:
    """What replays found best, or as good as the best, at every ratio (docs/cache.md)."""
    return "lfru"
