"""Which experts are kept in memory, and how many."""

from __future__ import annotations

from colibri.config.choices import CacheBits, CacheScope, PolicyName
from colibri.config.settings.forms import auto_off_or_path, pin, whole
from colibri.config.settings.setting import Setting, Upstream
from colibri.config.settings.translations import pin_gigabytes, same

ROWS: tuple[Setting, ...] = (
    Setting(
        "cache_experts",
        "1 to 100000",
        "Expert slots in each layer; default: as many as the memory budget allows.",
        whole(1, 100_000),
        Upstream("CAP", same),
    ),
    Setting(
        "cache_share",
        "1 to 100",
        "Percent of the possible expert slots to use; less is faster if the system caches well.",
        whole(1, 100),
    ),
    Setting.choosing(
        "cache_bits",
        CacheBits,
        "Bits a weight in the expert cache; 3: the same memory holds more experts (lossy).",
    ),
    Setting.choosing(
        "cache_scope",
        CacheScope,
        "Whether each layer has expert slots of its own, or all layers share them.",
    ),
    Setting.choosing(
        "policy",
        PolicyName,
        "Which cached expert makes room for another; auto: the one that replays found best, lfru.",
    ),
    Setting(
        "pin",
        "auto, 0, a size, a share of the expert cache or all",
        "How much of the cache is reserved for the experts used most; auto: once these are known.",
        pin,
        Upstream("PIN_GB", pin_gigabytes, "a plain number of GB; 0: none"),
    ),
    Setting(
        "usage",
        "auto, off or a file",
        "Where to remember which experts are used; auto: .coli_usage beside the model.",
        auto_off_or_path,
        names_files=True,
    ),
    Setting(
        "usage_half_life",
        "1000 to 1000000000",
        "Number of tokens after which a remembered use counts half.",
        whole(1000, 1_000_000_000),
    ),
)
