"""Cache policies: which resident expert is given up first. One file each."""

from collections.abc import Callable

from colibri.errors import ConfigError
from colibri.experts.base import CachePolicy
from colibri.experts.cache.policies.lfru import LeastFrequentlyRecentlyUsed
from colibri.experts.cache.policies.lru import LeastRecentlyUsed
from colibri.experts.cache.policies.s3fifo import S3Fifo
from colibri.experts.cache.policies.slru import SegmentedLRU
from colibri.experts.cache.policies.tglru import TemporalGroups

POLICIES: dict[str, Callable[[], CachePolicy]] = {
    "lru": LeastRecentlyUsed,
    "slru": SegmentedLRU,
    "lfru": LeastFrequentlyRecentlyUsed,
    "s3fifo": S3Fifo,
    "tglru": TemporalGroups,
}


# What auto stands for: in replays the best, or as good as the best, at every ratio of slots a layer
# to the experts that a token wants of it (docs/cache.md).
AUTO = "lfru"


def make_policy(name: str) -> CachePolicy:
    """name: of POLICIES, or auto. Raises ConfigError for a name that is none."""
    name = AUTO if name == "auto" else name
    if name not in POLICIES:
        known = ", ".join(("auto", *POLICIES))
        raise ConfigError(f"cache policy {name!r} is unknown; there is: {known}")
    return POLICIES[name]()
