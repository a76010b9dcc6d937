"""Processors, drives and how experts are read from them."""

from __future__ import annotations

from colibri.config.settings.forms import auto_or, choice, numa, paths, weights, whole
from colibri.config.settings.setting import Setting, Upstream
from colibri.config.settings.translations import on_off, pilot, same

ROWS: tuple[Setting, ...] = (
    Setting(
        "threads",
        "1 to 1024",
        "Threads for arithmetic; default: the physical cores that may be used.",
        whole(1, 1024),
    ),
    Setting(
        "cpu",
        "auto, scalar, avx2, avxvnni, avx512vnni, neon_dotprod or neon_i8mm",
        "Instruction set of the arithmetic; every one gives the same bits.",
        choice("auto", "scalar", "avx2", "avxvnni", "avx512vnni", "neon_dotprod", "neon_i8mm"),
    ),
    Setting(
        "numa",
        "auto, on or off",
        "Spread the weights over the memory of all sockets; auto: if there are several.",
        numa,
    ),
    Setting(
        "readers",
        "auto or 1 to 256",
        "Threads that read experts from disk; auto measures how many, and whether --direct helps.",
        auto_or(whole(1, 256)),
    ),
    Setting(
        "direct",
        "auto, on or off",
        "Read experts past the page cache (O_DIRECT).",
        choice("auto", "on", "off"),
        Upstream("DIRECT", on_off, "1 or 0"),
    ),
    Setting(
        "lookahead",
        "off, auto or 1 to 8",
        "How many layers ahead to predict and prefetch experts; auto: one, while it measurably "
        "helps.",
        choice("off", "auto", *range(1, 9)),
        Upstream("PILOT", pilot, "0 (off) or a number of layers"),
    ),
    Setting(
        "verify_reads",
        "on or off",
        "Check the checksum of each expert as it is read; converted models have them.",
        choice("on", "off"),
    ),
    Setting(
        "model_dirs",
        "directories, a comma between them",
        "Further directories with files of the model; each file is in one of them.",
        paths(";,"),
        names_files=True,
    ),
    Setting(
        "mirror",
        "directories, a semicolon between them",
        "Copies of the model's experts, on other drives, to read from too; may be repeated.",
        paths(";"),
        Upstream("COLI_MODEL_MIRROR", same),
        names_files=True,
    ),
    Setting(
        "disk_weights",
        "auto or numbers, a comma between them",
        "Shares to read from the model's drive and each mirror's, as in 2,1; auto measures them.",
        weights,
    ),
)
