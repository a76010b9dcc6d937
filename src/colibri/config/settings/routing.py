"""Which experts tokens go to, and how that is watched."""

from __future__ import annotations

from colibri.config.choices import OnOff
from colibri.config.routers import ROUTER_FORM, router_text
from colibri.config.settings.forms import auto_off_or, path, share, whole
from colibri.config.settings.setting import Setting

ROWS: tuple[Setting, ...] = (
    Setting(
        "router",
        ROUTER_FORM,
        "How experts are chosen for a token; own: as the model does; the others are approximate.",
        router_text,
    ),
    Setting(
        "experts_per_token",
        "1 to 1024",
        "Approximate: so many experts for each token instead of the model's own number.",
        whole(1, 1024),
    ),
    Setting(
        "expert_top_p",
        "above 0, up to 1",
        "Approximate: only the experts that together have this share of a token's weights.",
        share,
    ),
    Setting(
        "approx_check",
        "auto, off or 1 to 100000",
        "Measure what approximate routing or --cache-bits 3 costs on every n-th token; auto: on "
        "each if all exact experts are in memory, else on every 16th.",
        auto_off_or(whole(1, 100_000)),
    ),
    Setting(
        "trace",
        "file",
        "Record which experts every token goes to, for coli replay and coli bench.",
        path,
        names_files=True,
    ),
    Setting.choosing(
        "trace_logits",
        OnOff,
        "With --trace: record the routers' logits too.",
    ),
)
