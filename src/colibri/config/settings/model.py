"""What is loaded, into how much memory, at which precision."""

from __future__ import annotations

from colibri.config.settings.forms import auto_off_or_path, choice, memory, path, whole
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
    Setting(
        "trunk_bits",
        "auto, source, 8 or 4",
        "Precision of all weights that are not routed experts.",
        choice("auto", "source", 8, 4),
    ),
    Setting(
        "embed_bits",
        "8, 4 or 32",
        "Precision of the embedding rows; 32 is exact.",
        choice(8, 4, 32),
    ),
    Setting(
        "activations",
        "int8x2 or int8",
        "Precision of activations against packed weights: two int8 planes, or one (lossy).",
        choice("int8x2", "int8"),
    ),
    Setting(
        "profile",
        "auto, off or a file",
        "Settings that `coli tune` found for a model; auto: those for this model on this machine.",
        auto_off_or_path,
        names_files=True,
    ),
)
