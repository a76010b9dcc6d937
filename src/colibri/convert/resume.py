"""Where a conversion stands: new, unfinished or finished, and whether it is the same one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from colibri.container.files import shown
from colibri.container.header import read_header
from colibri.container.manifest import Manifest, read_manifest
from colibri.container.shards import read_shards
from colibri.container.spec import MANIFEST_NAME
from colibri.convert.destination import has_files
from colibri.convert.journal import (
    Inventory,
    Journal,
    SourceFile,
    load_inventory,
    source_file,
    take_inventory,
)
from colibri.convert.plan import Plan, Shard, TrunkShard
from colibri.convert.policy import Policy
from colibri.convert.sidefiles import is_side_file
from colibri.errors import ConfigError, ContainerError


def finished_manifest(
    source: Path, destination: Path, policy: Policy, family: str
) -> Manifest | None:
    """The manifest of an earlier conversion of this source with these parameters, if there is one.

    Raises ConfigError when the one that is there has other parameters.
    """
    if not (destination / MANIFEST_NAME).exists():
        return None
    manifest = read_manifest(destination)
    recorded = str(manifest.params.get("source", ""))
    sizes = {f.name: f.size for f in manifest.source.files}
    digest = _digest_if_whole(source, sizes, recorded)
    check_params(destination, manifest.params, policy.params(family, digest))
    has_files(destination, {f.name: f.size for f in manifest.files})
    return manifest


def check_params(destination: Path, recorded: Mapping[str, Any], asked: Mapping[str, str]) -> None:
    """Refuse parameters other than those the outputs so far were made with."""
    differences = [
        f"{key} was {shown(str(recorded.get(key, 'absent')))}, now {shown(value)}"
        for key, value in asked.items()
        if recorded.get(key) != value
    ]
    if differences:
        raise ConfigError(
            f"{destination}: holds a conversion with other parameters ({'; '.join(differences)}); "
            "use the same ones, another directory, or --force to start anew"
        )


def resumed_inventory(
    source: Path, destination: Path, journal: Journal, policy: Policy, family: str
) -> Inventory:
    """The source as the unfinished conversion found it; what still exists must be unchanged."""
    digest = journal.params.get("source", "")
    check_params(destination, journal.params, policy.params(family, digest))
    inventory = load_inventory(destination, digest)
    for entry in inventory.files:
        path = source / entry.name
        if path.exists() and _file_now(path) != entry:
            raise ConfigError(
                f"{path}: is not the file that the unfinished conversion in {destination} began "
                "with; give the same source, another directory, or --force to start anew"
            )
    return inventory


def is_finished(shard: Shard, destination: Path, journal: Journal) -> bool:
    """Journaled, and still there at its full size."""
    entry = journal.finished.get(shard.name)
    if entry is None or entry.size != shard.size:
        return False
    if isinstance(shard, TrunkShard):
        packed = {t.info.name for t in shard.tensors if t.scheme}
        if packed != entry.multipliers.keys():
            return False
    path = destination / shard.name
    return path.is_file() and path.stat().st_size == shard.size


def forget_others(journal: Journal, destination: Path, done: Collection[str]) -> None:
    """Drop entries of files that must be written anew or are no longer there."""
    for name in list(journal.finished):
        kept = name in done or (is_side_file(name) and (destination / name).is_file())
        if not kept:
            del journal.finished[name]


def check_sources(source: Path, pending: Collection[Shard]) -> None:
    """Every file that an unfinished output needs must still be there."""
    needed = sorted({name for shard in pending for name in shard.source_files})
    missing = [name for name in needed if not (source / name).is_file()]
    if missing:
        raise ContainerError(
            f"{source}: {', '.join(missing)} missing, still needed by the unfinished conversion "
            f"({', '.join(sorted(s.name for s in pending)[:8])}); put the files back"
        )


def deletable(inventory: Inventory, plan: Plan, done: Collection[str]) -> list[str]:
    """Source files of which every output is finished."""
    needed = {name for s in plan.shards if s.name not in done for name in s.source_files}
    return [f.name for f in inventory.files if f.name not in needed]


def _file_now(path: Path) -> SourceFile:
    return source_file(path, read_header(path)[0].values())


def _digest_if_whole(source: Path, sizes: Mapping[str, int], recorded: str) -> str:
    """The source's digest, or the recorded one if source shards were deleted since."""
    there = {n: (source / n).stat().st_size for n in sizes if (source / n).is_file()}
    if len(there) < len(sizes) and all(there[n] == sizes[n] for n in there):
        return recorded
    return take_inventory(read_shards(source)).digest()
