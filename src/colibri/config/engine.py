"""Wishes merged from flags, environment and file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

from colibri.config.choices import (
    Activations,
    AutoOnOff,
    CacheBits,
    CacheScope,
    CpuPath,
    EmbedBits,
    Lookahead,
    OnOff,
    PolicyName,
    TrunkBits,
)
from colibri.config.server import SERVER_BY_FIELD
from colibri.config.servicelinks import service_links, warning_of
from colibri.config.settings import BY_FIELD, OTHER_VARIABLES
from colibri.config.sizes import shown
from colibri.config.sources import gather, near
from colibri.config.upstream import known_names
from colibri.errors import ConfigError


class EngineSettings(TypedDict, total=False):
    """The keyword arguments of LLM: the fields of EngineConfig but the model and a profile."""

    ram: str
    context: int | None
    prefill_chunk: int | None
    trunk_bits: TrunkBits
    embed_bits: EmbedBits
    activations: Activations
    cache_experts: int | None
    cache_share: int
    cache_bits: CacheBits
    cache_scope: CacheScope
    policy: PolicyName
    pin: str
    usage: str
    usage_half_life: int
    threads: int | None
    cpu: CpuPath
    numa: AutoOnOff
    readers: int | Literal["auto"]
    direct: AutoOnOff
    lookahead: Lookahead
    verify_reads: OnOff
    model_dirs: tuple[str, ...]
    mirror: tuple[str, ...]
    disk_weights: tuple[float, ...] | Literal["auto"]
    router: str
    experts_per_token: int | None
    expert_top_p: float | None
    approx_check: int | Literal["auto", "off"]
    trace: str | None
    trace_logits: OnOff
    prefix_cache: int | Literal["auto"]
    max_queue: int
    stall_timeout: int


@dataclass(frozen=True)
class EngineConfig:
    """Wishes, validated one by one; what is "auto" or None the plan decides."""

    model: str | None = None  # None: the embedded model
    ram: str = "auto"
    context: int | None = None
    prefill_chunk: int | None = None
    trunk_bits: TrunkBits = "auto"
    embed_bits: EmbedBits = 8
    activations: Activations = "int8x2"
    profile: str = "auto"  # the file, once one was taken; only the command line takes any
    cache_experts: int | None = None
    cache_share: int = 100
    cache_bits: CacheBits = "stored"
    cache_scope: CacheScope = "layer"
    policy: PolicyName = "auto"
    pin: str = "auto"
    usage: str = "auto"
    usage_half_life: int = 50_000
    threads: int | None = None
    cpu: CpuPath = "auto"
    numa: AutoOnOff = "auto"
    readers: int | Literal["auto"] = 4
    direct: AutoOnOff = "auto"
    lookahead: Lookahead = "auto"
    verify_reads: OnOff = "off"
    model_dirs: tuple[str, ...] = ()
    mirror: tuple[str, ...] = ()
    disk_weights: tuple[float, ...] | Literal["auto"] = "auto"
    router: str = "own"
    experts_per_token: int | None = None
    expert_top_p: float | None = None
    approx_check: int | Literal["auto", "off"] = "auto"
    trace: str | None = None
    trace_logits: OnOff = "off"
    prefix_cache: int | Literal["auto"] = "auto"
    max_queue: int = 32
    stall_timeout: int = 300  # seconds

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            setting = BY_FIELD[field.name]
            read = setting.read(value, field.name)
            if setting.names_files:
                object.__setattr__(self, field.name, read)  # ~ is expanded
            elif read != value:
                raise ConfigError(f"{field.name}: {shown(value)}; give {setting.form}")

    @classmethod
    def resolve(
        cls,
        *,
        environ: Mapping[str, str],
        file: Path | None,
        defaults: Mapping[str, Any] | None = None,
        **flags: object,
    ) -> EngineConfig:
        """Merge flag > environment > file > `defaults` > default. A flag that is None was not
        given.

        Raises ConfigError naming the flag, variable or file key, and what it may be.
        """
        values = {**(defaults or {}), **asked_for(environ, file, flags)}
        return cls(**values)


def asked_for(
    environ: Mapping[str, str], file: Path | None, flags: Mapping[str, object]
) -> dict[str, Any]:
    """The settings that flags, environment or file name. Raises as EngineConfig.resolve."""
    return gather(BY_FIELD, SERVER_BY_FIELD, environ, file, flags)


def default_file(environ: Mapping[str, str]) -> Path | None:
    """COLI_CONFIG (must exist), else colibri/config.toml in the user's config directory if any."""
    if named := environ.get("COLI_CONFIG"):
        return Path(named).expanduser()
    folder = user_folder(environ)
    path = folder / "config.toml" if folder else None
    # Also none where it may not be looked for: the home of another user, in a container.
    return path if path is not None and os.path.isfile(path) else None


def user_folder(environ: Mapping[str, str]) -> Path | None:
    """Where this user's configuration is kept; it need not exist. None: the user has no home."""
    if home := environ.get("XDG_CONFIG_HOME"):
        return Path(home) / "colibri"
    if home := environ.get("HOME"):
        return Path(home) / ".config" / "colibri"
    return None


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """Where the program keeps what it learns for this user; it need not exist. None: as above."""
    if state := environ.get("XDG_STATE_HOME"):
        return Path(state) / "colibri"
    if home := environ.get("HOME"):
        return Path(home) / ".local" / "state" / "colibri"
    return None


def cpu_of(environ: Mapping[str, str]) -> CpuPath | None:
    """COLI_CPU, checked: it forces a path on whatever runs, a test suite for instance."""
    setting = BY_FIELD["cpu"]
    text = environ.get(setting.env)
    return cast(CpuPath, setting.read(text, setting.env)) if text else None


def usage_of(environ: Mapping[str, str]) -> str | None:
    """COLI_USAGE, checked: whatever runs, a test suite for instance, leaves nothing behind."""
    setting = BY_FIELD["usage"]
    text = environ.get(setting.env)
    return cast(str, setting.read(text, setting.env)) if text else None


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """One warning for each COLI_* variable that nothing reads, with names near it; one for all
    that Kubernetes sets."""
    settings = (*BY_FIELD.values(), *SERVER_BY_FIELD.values())
    ours = {setting.env for setting in settings} | {name for name, _ in OTHER_VARIABLES}
    known = ours | known_names()
    links = service_links(environ)
    strays = sorted(n for n in environ if n.startswith("COLI_") and n not in known | links)
    return warning_of(links) + [
        f"{name} is set but means nothing here{near(name, ours)}" for name in strays
    ]
