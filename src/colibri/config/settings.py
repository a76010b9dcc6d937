"""The one table of settings: flags, variables, file keys and docs/configuration.md come from it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from colibri.config.routers import ROUTER_FORM, router_text, share
from colibri.config.sizes import LARGEST_BYTES, bad_size, parse_bytes, shown
from colibri.errors import ConfigError

_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)


def _path(value: object) -> str:
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f"{shown(value)} is not a path")
    return text


def _memory(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    if not isinstance(value, str):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        raise bad_size(value, "has no unit" if number else "is not a size")
    parse_bytes(value, total=LARGEST_BYTES)
    return value.strip()


def _profile(value: object) -> str:
    word = value.strip().lower() if isinstance(value, str) else ""
    return word if word in ("auto", "off") else _path(value)


def _whole(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        text = str(value).strip()
        # A digit string is bounded before int() sees it: int() of megabytes of digits is slow.
        good = not isinstance(value, bool) and _WHOLE.fullmatch(text) is not None
        if not good or not low <= int(text) <= high:
            raise ConfigError(f"{shown(value)} is not a whole number from {low} to {high}")
        return int(text)

    return parse


def _auto_off_or(parse: Callable[[object], int]) -> Callable[[object], int | str]:
    either = _auto_or(parse)

    def parse_any(value: object) -> int | str:
        if isinstance(value, str) and value.strip().lower() == "off":
            return "off"
        try:
            return either(value)
        except ConfigError as error:
            raise ConfigError(f"{error} or off") from None

    return parse_any


def _auto_or(parse: Callable[[object], int]) -> Callable[[object], int | str]:
    def parse_either(value: object) -> int | str:
        try:
            return parse(value)
        except ConfigError as error:
            if isinstance(value, str) and value.strip().lower() == "auto":
                return "auto"
            raise ConfigError(f"{error}, or auto") from None

    return parse_either


def _choice(*choices: str | int) -> Callable[[object], str | int]:
    by_text = {str(choice): choice for choice in choices}

    def parse(value: object) -> str | int:
        key = str(value).strip().lower()
        if isinstance(value, bool) or key not in by_text:
            raise ConfigError(f"{shown(value)} is not one of {', '.join(by_text)}")
        return by_text[key]

    return parse


def _gigabytes(text: str) -> str:
    """Upstream's RAM_GB: a plain number of GB."""
    return text.strip() + "GB"


def _on_off(text: str) -> str:
    """Upstream's DIRECT: 1 or 0."""
    return {"1": "on", "0": "off"}.get(text.strip(), text)


def _pilot(text: str) -> str:
    """Upstream's PILOT: 0 or a number of layers."""
    return "off" if text.strip() == "0" else text


def _same(text: str) -> str:
    return text


@dataclass(frozen=True)
class Upstream:
    """A variable name that users of the C engine know, and what its values mean here."""

    env: str
    translate: Callable[[str], str]


@dataclass(frozen=True)
class Setting:
    """One wish: where it may be given, what it may be, what it does."""

    field: str  # of EngineConfig; also the key in the configuration file
    form: str  # valid values, for people
    help: str
    parse: Callable[[object], Any]
    upstream: Upstream | None = None

    @property
    def flag(self) -> str:
        return "--" + self.field.replace("_", "-")

    @property
    def env(self) -> str:
        return "COLI_" + self.field.upper()

    def read(self, value: object, where: str) -> Any:
        try:
            return self.parse(value)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None


SETTINGS: tuple[Setting, ...] = (
    Setting("model", "directory", "Model: converted, or a checkpoint as downloaded.", _path),
    Setting(
        "ram",
        "auto or a size",
        "Memory the whole process may use: 6GB, 5.5GiB, 800MB, 60%; auto: 9/10 of what is free.",
        _memory,
        Upstream("RAM_GB", _gigabytes),
    ),
    Setting(
        "cache_experts",
        "1 to 100000",
        "Expert slots a layer, by hand instead of from the memory budget.",
        _whole(1, 100_000),
        Upstream("CAP", _same),
    ),
    Setting(
        "cache_share",
        "1 to 100",
        "Percent of the expert slots that fit to use: less is faster where the system caches well.",
        _whole(1, 100),
    ),
    Setting(
        "context",
        "1 to 100000000",
        "Longest prompt and answer together, in tokens; default: the model's, at most 8192.",
        _whole(1, 100_000_000),
        Upstream("CTX", _same),
    ),
    Setting(
        "trunk_bits",
        "auto, source, 8 or 4",
        "Precision of all weights that are not routed experts.",
        _choice("auto", "source", 8, 4),
    ),
    Setting(
        "embed_bits",
        "8, 4 or 32",
        "Precision of the embedding rows; 32 is exact.",
        _choice(8, 4, 32),
    ),
    Setting(
        "activations",
        "int8x2 or int8",
        "Activations against packed weights: two int8 planes, or one (lossy).",
        _choice("int8x2", "int8"),
    ),
    Setting(
        "threads",
        "1 to 1024",
        "Threads of arithmetic; default: the physical cores allowed.",
        _whole(1, 1024),
    ),
    Setting(
        "readers",
        "auto or 1 to 256",
        "Threads that read experts from disk; auto measures how many, and what --direct auto does.",
        _auto_or(_whole(1, 256)),
    ),
    Setting(
        "prefill_chunk",
        "1 to 1000000",
        "Prompt tokens that walk the layers together; default: what the budget allows.",
        _whole(1, 1_000_000),
    ),
    Setting(
        "cpu",
        "auto, scalar, avx2, avxvnni, avx512vnni, neon_dotprod or neon_i8mm",
        "Instruction set of the arithmetic; every one gives the same bits.",
        _choice("auto", "scalar", "avx2", "avxvnni", "avx512vnni", "neon_dotprod", "neon_i8mm"),
    ),
    Setting(
        "direct",
        "auto, on or off",
        "Read experts past the page cache (O_DIRECT).",
        _choice("auto", "on", "off"),
        Upstream("DIRECT", _on_off),
    ),
    Setting(
        "lookahead",
        "off, auto or 1 to 8",
        "Layers to guess the experts of and read ahead; auto: one, where measured to pay.",
        _choice("off", "auto", *range(1, 9)),
        Upstream("PILOT", _pilot),
    ),
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
        _whole(1, 1024),
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
        "Every so many tokens what the approximation costs is measured against exact routing; "
        "auto: 1 where all experts fit into memory, else 16.",
        _auto_off_or(_whole(1, 100_000)),
    ),
    Setting(
        "profile",
        "auto, off or a file",
        "Settings that `coli tune` found for a model; auto: those for this model on this machine.",
        _profile,
    ),
)
BY_FIELD = {setting.field: setting for setting in SETTINGS}

# Variables that are not settings of the engine: (name, what it does).
OTHER_VARIABLES: tuple[tuple[str, str], ...] = (
    ("COLI_CONFIG", "Path of the configuration file."),
    ("COLI_DEBUG", "1: show the Python traceback of an error."),
    ("COLI_TEST_TOKENIZERS", "Directory of large real tokenizers for the test suite."),
)
