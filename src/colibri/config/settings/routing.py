"""Which experts tokens go to, and how that is watched."""

from __future__ import annotations

from colibri.config.routers import ROUTER_FORM, router_text
from colibri.config.settings.forms import auto_off_or, choice, path, share, whole
from colibri.config.settings.setting import Setting

ROWS: tuple[Setting, ...] = (
    Setting(
        "router",
        ROUTER_FORM,
        "Which experts a token goes to; all but own are approximate.",
        router_text,
    ),
    Setting(
        "experts_per_token",
        "1 to 1024",
        "Approximate: that many experts a token instead of the model's own number.",
        whole(1, 1024),
    ),
    Setting(
        "expert_top_p",
        "above 0, up to 1",
        "Approximate: of a token's experts those that hold this share of their weight.",
        share,
    ),
    Setting(
        "approx_check",
        "auto, off or 1 to 100000",
        "Every so many tokens what approximate routing or --cache-bits 3 costs is measured; "
        "auto: 1 where the exact experts are all in memory, else 16.",
        auto_off_or(whole(1, 100_000)),
    ),
    Setting(
        "trace",
        "file",
        "Record which experts every token goes to, for coli replay and coli bench.",
        path,
    ),
    Setting(
        "trace_logits",
        "on or off",
        "With --trace: record the routers' logits too.",
        choice("on", "off"),
    ),
)
