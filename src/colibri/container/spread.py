"""Where the shards of a model lie: in its directory, and in others on other drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from colibri.container.files import list_names
from colibri.errors import ContainerError

SUFFIX = ".safetensors"


def find_shards(directory: Path, others: Sequence[Path] = ()) -> Mapping[str, Path]:
    """Every shard's path by name. Raises ContainerError for one that is there twice, and for a
    directory that holds none."""
    found = _shards(directory)
    for other in others:
        there = _shards(other)
        if not there:
            raise ContainerError(f"{other}: holds no {SUFFIX} file, but --model-dirs names it")
        for name, path in there.items():
            if name in found:
                raise ContainerError(
                    f"{name} is in both {found[name].parent} and {other}: a model spread over "
                    "directories has each shard once; a directory of copies is for --mirror"
                )
            found[name] = path
    return found


def _shards(directory: Path) -> dict[str, Path]:
    return {n: directory / n for n in list_names(directory) if n.endswith(SUFFIX)}
