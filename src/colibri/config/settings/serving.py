"""Many requests at once, and what they leave for one another."""

from __future__ import annotations

from colibri.config.settings.forms import auto_or, whole
from colibri.config.settings.setting import Setting

ROWS: tuple[Setting, ...] = (
    Setting(
        "prefix_cache",
        "auto or 0 to 100000000 tokens",
        "Room for what ended prompts and answers left, beside the context; auto: what the context "
        "leaves free; 0: none is kept.",
        auto_or(whole(0, 100_000_000)),
    ),
    Setting(
        "max_queue",
        "1 to 100000",
        "Requests that may wait for their turn; one more is told when to come again.",
        whole(1, 100_000),
    ),
    Setting(
        "stall_timeout",
        "0 to 86400 seconds",
        "After so long without any progress of the model requests end with an error; 0: never.",
        whole(0, 86_400),
    ),
)
