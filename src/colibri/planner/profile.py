"""Profiles: settings that were measured to be faster for one model on one machine.

A profile is a JSON file in the user's own configuration directory, named after model, machine and
the hash of both. It holds no setting that changes an answer. One that is damaged, or of another
model or machine, is not used, and the caller says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from colibri.config import BY_FIELD, user_folder
from colibri.container.files import opened, read_range
from colibri.container.spread import find_shards
from colibri.container.writer import naming_the_file, write_file
from colibri.errors import ConfigError, ContainerError
from colibri.hardware import probe
from colibri.hardware.storage import storage_of

VERSION = 1
# Speed only: none of these changes a bit of any answer.
FIELDS = ("threads", "readers", "direct", "cache_share", "policy", "lookahead")
_MAX_BYTES = 1 << 20
_MEMORY_STEP = 1 << 28  # what the firmware keeps for itself differs from boot to boot
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Machine(msgspec.Struct, frozen=True):
    """What a profile is good for: another processor, memory or disk wants other settings."""

    cpu: str
    cores: int
    memory_bytes: int
    disk: str

    @classmethod
    def here(cls, model: Path, others: Sequence[Path] = ()) -> Machine:
        """This machine, with the disks that the model lies on."""
        facts = probe.facts()
        memory = min(facts.memory_bytes, facts.cgroup_memory_bytes or facts.memory_bytes)
        return cls(
            cpu=facts.cpu_model or facts.machine,
            cores=facts.physical_cores,
            memory_bytes=round(memory / _MEMORY_STEP) * _MEMORY_STEP,
            disk=" + ".join(dict.fromkeys(_disk(directory) for directory in (model, *others))),
        )


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    version: int = VERSION
    machine: Machine
    model: str  # fingerprint
    name: str  # of the model's directory, for people
    settings: dict[str, Any]
    gain: float  # the lesser of both orders, e.g. 0.12
    base_tps: float
    tps: float
    noise: float
    colibri: str
    tuned_unix: int


class _File(msgspec.Struct, frozen=True):
    profile: Profile
    checksum: str  # xxh3-64 of the profile's compact JSON


def _disk(directory: Path) -> str:
    storage = storage_of(directory)
    names = (storage.identity, storage.device, storage.file_system)
    return next((name for name in names if name), "unknown")


def fingerprint(model: Path, others: Sequence[Path] = ()) -> str:
    """Of config.json and of the names and sizes of all weight files, wherever they lie; 16 hex
    digits. others: directories of --model-dirs."""
    path = model / "config.json"
    with opened(path) as (fd, size):
        digest = xxhash.xxh3_64(read_range(fd, path, 0, size))
    for name, shard in sorted(find_shards(model, others).items()):
        with opened(shard) as (_, size):
            digest.update(f"{name}\0{size}\0".encode())
    return digest.hexdigest()


def profile_path(
    model: Path, environ: Mapping[str, str], others: Sequence[Path] = ()
) -> Path | None:
    """Where this machine's profile of the model is, or would be; None: the user has no folder."""
    folder = user_folder(environ)
    if folder is None:
        return None
    key = xxhash.xxh3_64(msgspec.json.encode(Machine.here(model, others)))
    key.update(fingerprint(model, others).encode())
    name = _NAME.sub("-", model.absolute().name)[:60] or "model"
    return folder / "tune" / f"{name}-{key.hexdigest()}.json"


def check_savable(path: Path) -> None:
    """Before the work of finding one. Raises ConfigError."""
    folder = probe.existing(path.parent)
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise ConfigError(
            f"{path}: could not be saved: {folder} may not be written to; set XDG_CONFIG_HOME to a "
            "directory that may"
        )


def save(path: Path, profile: Profile) -> None:
    """Whole or not at all. Raises ContainerError, CapacityError."""
    with naming_the_file(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    file = _File(profile, _checksum(profile))
    data = msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"
    write_file(path, [data], len(data))


def load(path: Path, model: Path, others: Sequence[Path] = ()) -> Profile:
    """A profile that is whole, and of this model on this machine.

    Raises ContainerError for a damaged file, ConfigError for one of something else.
    """
    profile = read(path)
    if profile.model != fingerprint(model, others):
        raise ConfigError(f"{path}: is a profile of {profile.name!a}, another model; tune this one")
    if profile.machine != Machine.here(model, others):
        raise ConfigError(f"{path}: was measured on another machine or disk; run coli tune again")
    return profile


def read(path: Path) -> Profile:
    """A profile that is whole, of whatever. Raises ContainerError, ConfigError."""
    with opened(path) as (fd, size):
        data = read_range(fd, path, 0, min(size, _MAX_BYTES))
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise ContainerError(f"{path}: is no profile of coli tune: {error}") from None
    profile = file.profile
    if profile.version != VERSION:
        raise ContainerError(f"{path}: a profile of version {profile.version}, not {VERSION}")
    if file.checksum != _checksum(profile):
        raise ContainerError(f"{path}: was changed or is damaged (its checksum does not match)")
    for field, value in profile.settings.items():
        if field not in FIELDS or field not in BY_FIELD:
            raise ConfigError(f"{path}: {field!a} is no setting that a profile may hold")
        BY_FIELD[field].read(value, f"{path}: {field}")
    return profile


def remove(path: Path) -> bool:
    """False if there was none."""
    with naming_the_file(path):
        if not os.path.lexists(path):
            return False
        path.unlink()
    return True


def _checksum(profile: Profile) -> str:
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode(profile, order="deterministic"))
