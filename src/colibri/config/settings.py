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


def _paths(separators: str) -> Callable[[object], tuple[str, ...]]:
    """Several paths; in a text the first of the separators that occurs stands between them."""

    def parse(value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            found = next((s for s in separators if s in value), separators[0])
            value = [part.strip() for part in value.split(found)]
        if not isinstance(value, list | tuple):
            value = [value]
        return tuple(_path(part) for part in value if part != "")

    return parse


def _weights(value: object) -> tuple[float, ...] | str:
    if isinstance(value, str):
        if value.strip().lower() == "auto":
            return "auto"
        value = value.split(",")
    try:
        weights = tuple(float(part) for part in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        weights = ()
    if not weights or not all(0 <= weight <= 1e6 for weight in weights) or not any(weights):
        raise ConfigError(f"{shown(value)} is not auto or weights like 2,1 (0 to 1000000)")
    return weights


def _memory(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    if not isinstance(value, str):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        raise bad_size(value, "has no unit" if number else "is not a size")
    parse_bytes(value, total=LARGEST_BYTES)
    return value.strip()


def _pin(value: object) -> str:
    word = "" if isinstance(value, bool) else str(value).strip().lower()
    if word in ("auto", "all", "0"):
        return word
    try:
        return _memory(value)
    except ConfigError:
        raise ConfigError(
            f"{shown(value)} is not auto, 0, all, a size like 2GB or a share like 50%"
        ) from None


def _auto_off_or_path(value: object) -> str:
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


def _numa(value: object) -> str:
    """COLI_NUMA is 1 or 0 for users of the C engine."""
    words = {"1": "on", "0": "off"}
    return str(_choice("auto", "on", "off")(words.get(str(value).strip(), value)))


def _gigabytes(text: str) -> str:
    """Upstream's RAM_GB: a plain number of GB."""
    return text.strip() + "GB"


def _pin_gigabytes(text: str) -> str:
    """Upstream's PIN_GB: a plain number of GB."""
    return "0" if text.strip() == "0" else _gigabytes(text)


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
    says: str = "the same values"


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
        Upstream("RAM_GB", _gigabytes, "a plain number of GB"),
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
        "cache_bits",
        "stored or 3",
        "Bits a weight that cached experts keep; 3: the same memory holds more of them (lossy).",
        _choice("stored", 3),
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
        "verify_reads",
        "on or off",
        "Check the checksum of each expert as it is read; converted models have them.",
        _choice("on", "off"),
    ),
    Setting(
        "numa",
        "auto, on or off",
        "Spread trunk and expert cache over the memory of all sockets; auto: if there are several.",
        _numa,
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
        Upstream("DIRECT", _on_off, "1 or 0"),
    ),
    Setting(
        "lookahead",
        "off, auto or 1 to 8",
        "Layers to guess the experts of and read ahead; auto: one, where measured to pay.",
        _choice("off", "auto", *range(1, 9)),
        Upstream("PILOT", _pilot, "0 (off) or a number of layers"),
    ),
    Setting(
        "policy",
        "auto, lru, slru, lfru, s3fifo or tglru",
        "Which cached expert is given up for another; auto: what replays found best, lfru.",
        _choice("auto", "lru", "slru", "lfru", "s3fifo", "tglru"),
    ),
    Setting(
        "cache_scope",
        "layer or global",
        "Each layer keeps its expert slots, or all layers share them.",
        _choice("layer", "global"),
    ),
    Setting(
        "trace",
        "file",
        "Record which experts every token goes to, for coli replay and coli bench.",
        _path,
    ),
    Setting(
        "trace_logits",
        "on or off",
        "With --trace: record the routers' logits too.",
        _choice("on", "off"),
    ),
    Setting(
        "pin",
        "auto, 0, a size, a share of the expert cache or all",
        "How much of the cache is kept for the experts used most; auto: once usage tells which.",
        _pin,
        Upstream("PIN_GB", _pin_gigabytes, "a plain number of GB; 0: none"),
    ),
    Setting(
        "usage",
        "auto, off or a file",
        "Where it is remembered which experts are used; auto: .coli_usage beside the model.",
        _auto_off_or_path,
    ),
    Setting(
        "usage_half_life",
        "1000 to 1000000000",
        "Tokens after which a remembered use counts half.",
        _whole(1000, 1_000_000_000),
    ),
    Setting(
        "model_dirs",
        "directories, a comma between them",
        "More directories that hold files of the model, each file in one of them.",
        _paths(";,"),
    ),
    Setting(
        "mirror",
        "directories, a semicolon between them",
        "Copies of the model's experts, on other drives, to read from too; may be repeated.",
        _paths(";"),
        Upstream("COLI_MODEL_MIRROR", _same),
    ),
    Setting(
        "disk_weights",
        "auto or numbers, a comma between them",
        "How much to read from the model's and each mirror's drive: 2,1; auto measures it.",
        _weights,
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
        "prefix_cache",
        "auto or 0 to 100000000 tokens",
        "Room for what ended prompts and answers left, beside the context; auto: what the context "
        "leaves free; 0: none is kept.",
        _auto_or(_whole(0, 100_000_000)),
    ),
    Setting(
        "max_queue",
        "1 to 100000",
        "Requests that may wait for their turn; one more is told when to come again.",
        _whole(1, 100_000),
    ),
    Setting(
        "stall_timeout",
        "0 to 86400 seconds",
        "After so long without any progress of the model requests end with an error; 0: never.",
        _whole(0, 86_400),
    ),
    Setting(
        "profile",
        "auto, off or a file",
        "Settings that `coli tune` found for a model; auto: those for this model on this machine.",
        _auto_off_or_path,
    ),
)
BY_FIELD = {setting.field: setting for setting in SETTINGS}

# Variables that are not settings of the engine: (name, what it does).
OTHER_VARIABLES: tuple[tuple[str, str], ...] = (
    ("COLI_CONFIG", "Path of the configuration file."),
    ("COLI_DEBUG", "1: show the Python traceback of an error."),
    ("COLI_TEST_TOKENIZERS", "Directory of large real tokenizers for the test suite."),
)
