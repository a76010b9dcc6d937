"""Cache policies: which resident expert is given up first. One file each."""

from collections.abc import Callable

from colibri.errors import ConfigError
from colibri.experts.base import CachePolicy
from colibri.experts.policies.lru import LeastRecentlyUsed

POLICIES: dict[str, Callable[[], CachePolicy]] = {"lru": LeastRecentlyUsed}


def make_policy(name: str) -> CachePolicy:
    """Raises ConfigError for a name that is none."""
    if name not in POLICIES:
        raise ConfigError(f"cache policy {name!r} is unknown; there is: {', '.join(POLICIES)}")
    return POLICIES[name]()
