"""Which experts are kept in memory, and how many."""

from __future__ import annotations

from colibri.config.settings.forms import auto_off_or_path, choice, pin, whole
from colibri.config.settings.setting import Setting, Upstream
from colibri.config.settings.translations import pin_gigabytes, same

ROWS: tuple[Setting, ...] = (
    Setting(
        "cache_experts",
        "1 to 100000",
        "Expert slots a layer, by hand instead of from the memory budget.",
        whole(1, 100_000),
        Upstream("CAP", same),
    ),
    Setting(
        "cache_share",
        "1 to 100",
        "Percent of the expert slots that fit to use: less is faster where the system caches well.",
        whole(1, 100),
    ),
    Setting(
        "cache_bits",
        "stored or 3",
        "Bits a weight that cached experts keep; 3: the same memory holds more of them (lossy).",
        choice("stored", 3),
    ),
    Setting(
        "cache_scope",
        "layer or global",
        "Each layer keeps its expert slots, or all layers share them.",
        choice("layer", "global"),
    ),
    Setting(
        "policy",
        "auto, lru, slru, lfru, s3fifo or tglru",
        "Which cached expert is given up for another; auto: what replays found best, lfru.",
        choice("auto", "lru", "slru", "lfru", "s3fifo", "tglru"),
    ),
    Setting(
        "pin",
        "auto, 0, a size, a share of the expert cache or all",
        "How much of the cache is kept for the experts used most; auto: once usage tells which.",
        pin,
        Upstream("PIN_GB", pin_gigabytes, "a plain number of GB; 0: none"),
    ),
    Setting(
        "usage",
        "auto, off or a file",
        "Where it is remembered which experts are used; auto: .coli_usage beside the model.",
        auto_off_or_path,
    ),
    Setting(
        "usage_half_life",
        "1000 to 1000000000",
        "Tokens after which a remembered use counts half.",
        whole(1000, 1_000_000_000),
    ),
)
