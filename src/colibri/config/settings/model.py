"""What is loaded, into how much memory, at which precision."""

from __future__ import annotations

from colibri.config.choices import Activations, EmbedBits, TrunkBits
from colibri.config.settings.forms import auto_off_or_path, memory, path, whole
from colibri.config.settings.setting import Setting, Upstream
from colibri.config.settings.translations import gigabytes, same

ROWS: tuple[Setting, ...] = (
    Setting(
        "model",
        "directory or ORG/NAME",
        "Model: converted, or a checkpoint as downloaded; ORG/NAME: one in Hugging Face's cache.",
        path,
        names_files=True,
    ),
    Setting(
        "ram",
        "auto or a size",
        "Memory that the whole process may use: 6GB, 5.5GiB, 60%; auto: 9/10 of what is free.",
        memory,
        Upstream("RAM_GB", gigabytes, "a plain number of GB"),
    ),
    Setting(
        "context",
        "1 to 100000000",
        "Longest prompt and answer together, in tokens; default: the model's, at most 8192.",
        whole(1, 100_000_000),
        Upstream("CTX", same),
    ),
    Setting(
        "prefill_chunk",
        "1 to 1000000",
        "Prompt tokens computed together; default: as many as the budget allows.",
        whole(1, 1_000_000),
    ),
    Setting.choosing(
        "trunk_bits",
        TrunkBits,
        "Precision of all weights that are not routed experts.",
    ),
    Setting.choosing(
        "embed_bits",
        EmbedBits,
        "Precision of the embedding rows; 32 is exact.",
    ),
    Setting.choosing(
        "activations",
        Activations,
        "Precision of activations against packed weights: two int8 planes, or one (lossy).",
    ),
    Setting(
        "profile",
        "auto, off or a file",
        "Settings that `coli tune` found for a model; auto: those for this model on this machine.",
        auto_off_or_path,
        names_files=True,
    ),
)
