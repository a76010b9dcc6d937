"""What the user asked for: flag, then environment, then configuration file, then default.

`EngineConfig` holds wishes and may say "auto"; the resolved numbers are the planner's `Plan`.
`SETTINGS` is the one table that flags, variables, file keys and docs/configuration.md come from.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from colibri.errors import ConfigError

TrunkBits = Literal["auto", "source", 8, 4]
EmbedBits = Literal[8, 4, 32]
Activations = Literal["int8x2", "int8"]
CpuPath = Literal["auto", "scalar", "avx2", "avx512vnni"]
Direct = Literal["auto", "on", "off"]

SIZE_FORMS = "6GB (10^9 bytes), 5.5GiB (2^30), 800MB, 750MiB, 60% (of this machine's memory)"
_LARGEST_BYTES = 1 << 50
_UNITS = {"B": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("KMGT", start=1)
    for suffix, base in (("B", 1000), ("IB", 1024))
}
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*(%|[KMGT]?I?B)", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)


def shown(value: object) -> str:
    """A value as an error message quotes it: on one line, never longer than a glance."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse_bytes(text: str | int, *, total: int | None = None) -> int:
    """A number of bytes from "6GB", "5.5GiB", "800MB", "1000000B" or "60%" of `total`.

    An int is taken as bytes. Zero, negative, absurd (> 2^50) and unreadable values raise
    ConfigError with the valid forms.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise _bad_size(text, "is not a size")
    size = text if isinstance(text, int) else _parse_size(text, total)
    if size <= 0:
        raise _bad_size(text, "is not a positive size")
    if size > _LARGEST_BYTES:
        raise _bad_size(text, "is more than any machine has")
    return size


def _parse_size(text: str, total: int | None) -> int:
    stripped = text.strip()
    match = _SIZE.fullmatch(stripped.upper()) if stripped.isascii() else None
    if match is None:
        bare = re.fullmatch(r"[0-9.]{1,20}", stripped) is not None
        raise _bad_size(text, "has no unit" if bare else "is not a size")
    number, unit = Fraction(match[1]), match[2]
    if unit != "%":
        return int(number * _UNITS[unit])
    if number > 100:
        raise _bad_size(text, "is more than the whole")
    if total is None:
        raise _bad_size(text, "is a share, and the whole is not known here")
    return int(number * total / 100)


def _bad_size(value: object, defect: str) -> ConfigError:
    return ConfigError(f"{shown(value)} {defect}; write e.g. {SIZE_FORMS}")


def _path(value: object) -> str:
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f"{shown(value)} is not a path")
    return text


def _memory(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    if not isinstance(value, str | int):
        raise _bad_size(value, "is not a size")
    parse_bytes(value, total=_LARGEST_BYTES)
    return f"{value}B" if isinstance(value, int) else value.strip()


def _whole(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        text = str(value).strip()
        # A digit string is bounded before int() sees it: int() of megabytes of digits is slow.
        good = not isinstance(value, bool) and _WHOLE.fullmatch(text) is not None
        if not good or not low <= int(text) <= high:
            raise ConfigError(f"{shown(value)} is not a whole number from {low} to {high}")
        return int(text)

    return parse


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
        "Memory the whole process may use: 6GB, 5.5GiB, 800MB, 60%.",
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
        "context",
        "1 to 100000000",
        "Longest prompt and answer together, in tokens.",
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
    Setting("readers", "1 to 256", "Threads that read experts from disk.", _whole(1, 256)),
    Setting(
        "prefill_chunk",
        "1 to 1000000",
        "Prompt tokens that walk the layers together; default: what the budget allows.",
        _whole(1, 1_000_000),
    ),
    Setting(
        "cpu",
        "auto, scalar, avx2 or avx512vnni",
        "Instruction set of the arithmetic; every one gives the same bits.",
        _choice("auto", "scalar", "avx2", "avx512vnni"),
    ),
    Setting(
        "direct",
        "auto, on or off",
        "Read experts past the page cache (O_DIRECT).",
        _choice("auto", "on", "off"),
        Upstream("DIRECT", _on_off),
    ),
)
_BY_FIELD = {setting.field: setting for setting in SETTINGS}

# Variables that are not settings of the engine: (name, what it does).
OTHER_VARIABLES: tuple[tuple[str, str], ...] = (
    ("COLI_CONFIG", "Path of the configuration file."),
    ("COLI_DEBUG", "1: show the Python traceback of an error."),
    ("COLI_TEST_TOKENIZERS", "Directory of large real tokenizers for the test suite."),
)


@dataclass(frozen=True)
class EngineConfig:
    """Wishes, validated one by one; what is "auto" or None the plan decides."""

    model: str | None = None  # None: the embedded model
    ram: str = "auto"
    cache_experts: int | None = None
    context: int | None = None
    trunk_bits: TrunkBits = "auto"
    embed_bits: EmbedBits = 8
    activations: Activations = "int8x2"
    threads: int | None = None
    readers: int = 4
    prefill_chunk: int | None = None
    cpu: CpuPath = "auto"
    direct: Direct = "auto"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            setting = _BY_FIELD[field.name]
            if setting.read(value, field.name) != value:
                raise ConfigError(f"{field.name}: {shown(value)}; give {setting.form}")

    @classmethod
    def resolve(
        cls, *, environ: Mapping[str, str], file: Path | None, **flags: object
    ) -> EngineConfig:
        """Merge flag > environment > file > default. A flag that is None was not given.

        Raises ConfigError naming the flag, variable or file key, and what it may be.
        """
        values = _from_file(file) | _from_environ(environ) | _from_flags(flags)
        return cls(**values)


def default_file(environ: Mapping[str, str]) -> Path | None:
    """COLI_CONFIG (must exist), else colibri/config.toml in the user's config directory if any."""
    if named := environ.get("COLI_CONFIG"):
        return Path(named)
    if home := environ.get("XDG_CONFIG_HOME"):
        base = Path(home)
    elif home := environ.get("HOME"):
        base = Path(home) / ".config"
    else:
        return None
    path = base / "colibri" / "config.toml"
    return path if path.is_file() else None


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """One warning for each COLI_* variable that nothing reads, with names near it."""
    known = {setting.env for setting in SETTINGS} | {name for name, _ in OTHER_VARIABLES}
    strays = sorted(name for name in environ if name.startswith("COLI_") and name not in known)
    return [f"{name} is set but means nothing here{_near(name, known)}" for name in strays]


def _near(name: str, known: set[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, sorted(known), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _from_flags(flags: Mapping[str, object]) -> dict[str, Any]:
    if strays := sorted(set(flags) - set(_BY_FIELD)):
        raise ConfigError(f"unknown setting {strays[0]!r}; known: {', '.join(_BY_FIELD)}")
    given = {name: value for name, value in flags.items() if value is not None}
    return {name: _BY_FIELD[name].read(v, _BY_FIELD[name].flag) for name, v in given.items()}


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        upstream = setting.upstream
        if text := environ.get(setting.env):
            values[setting.field] = setting.read(text, setting.env)
        elif upstream is not None and (text := environ.get(upstream.env)):
            values[setting.field] = setting.read(upstream.translate(text), upstream.env)
    return values


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    values = _read_toml(path)
    if strays := sorted(set(values) - set(_BY_FIELD)):
        hint = _near(strays[0], set(_BY_FIELD)) or f"; known: {', '.join(_BY_FIELD)}"
        raise ConfigError(f"{path}: unknown key {shown(strays[0])}{hint}")
    return {key: _BY_FIELD[key].read(value, f"{path}: {key}") for key, value in values.items()}


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read it: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from None
