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


def make_policy(name: str) -> CachePolicy:
    """name: of POLICIES; auto stands for one of them (auto.py). Raises ConfigError for a name that
    is none."""
    if name not in POLICIES:
        raise ConfigError(f"cache policy {name!r} is unknown; there is: {', '.join(POLICIES)}")
    return POLICIES[name]()
