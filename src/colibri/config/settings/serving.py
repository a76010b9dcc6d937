"""Many requests at once, and what finished ones leave for later ones."""

from __future__ import annotations

from colibri.config.settings.forms import auto_or, whole
from colibri.config.settings.setting import Setting

ROWS: tuple[Setting, ...] = (
    Setting(
        "prefix_cache",
        "auto or 0 to 100000000 tokens",
        "Tokens of finished requests kept for reuse, in addition to --context; auto: whatever the "
        "context leaves free; 0: none.",
        auto_or(whole(0, 100_000_000)),
    ),
    Setting(
        "max_queue",
        "1 to 100000",
        "Requests that may wait for their turn; further ones are told when to come again.",
        whole(1, 100_000),
    ),
    Setting(
        "stall_timeout",
        "0 to 86400 seconds",
        "End requests with an error if the model makes no progress for so long; 0: never.",
        whole(0, 86_400),
    ),
)
