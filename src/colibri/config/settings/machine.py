"""Processors, drives and how experts are read from them."""

from __future__ import annotations

from typing import get_args

from colibri.config.choices import AutoOnOff, CpuPath, Lookahead, OnOff
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
    Setting.choosing(
        "cpu",
        CpuPath,
        "Instruction set of the arithmetic; every one gives the same bits.",
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
    Setting.choosing(
        "direct",
        AutoOnOff,
        "Read experts past the page cache (O_DIRECT).",
        Upstream("DIRECT", on_off, "1 or 0"),
    ),
    Setting(
        "lookahead",
        "off, auto or 1 to 8",
        "How many layers ahead to predict and prefetch experts; auto: one, while it measurably "
        "helps.",
        choice(*get_args(Lookahead)),
        Upstream("PILOT", pilot, "0 (off) or a number of layers"),
    ),
    Setting.choosing(
        "verify_reads",
        OnOff,
        "Check the checksum of each expert as it is read; converted models have them.",
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
