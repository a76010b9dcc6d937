"""The shards of a checkpoint: which files belong to it, and that none is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from colibri.container.files import list_names, shown
from colibri.container.foreign import refuse_foreign
from colibri.container.header import TensorInfo, read_header
from colibri.container.jsonfile import read_json
from colibri.container.spread import SUFFIX, find_shards
from colibri.errors import ContainerError, ReadError
from colibri.words import are, count

INDEX_SUFFIX = ".safetensors.index.json"
_NUMBERED = re.compile(r"(.+)-(\d{1,6})-of-(\d{1,6})\.safetensors", re.ASCII)
_MAX_LISTED = 200


def read_shards(directory: Path, others: Sequence[Path] = ()) -> dict[str, TensorInfo]:
    """Every tensor of a checkpoint by name. others: directories with more of its files.

    The files are those of the index if there is one, else one complete numbered set, else a single
    file. Raises ContainerError that lists what is missing, damaged or contradictory.
    """
    names = list_names(directory)
    found = find_shards(directory, others)
    index = _index(directory, names)
    if index is None:
        if not found:
            refuse_foreign(directory, names)
        shards = _without_index(directory, found)
        return _merge(directory, [found[name] for name in shards])
    _check_index(directory, index, sorted(found))
    tensors = _merge(directory, [found[name] for name in sorted(set(index.values()))])
    _check_places(directory, index, tensors)
    return tensors


def read_outlines(
    directory: Path,
    absent: Callable[[Mapping[str, str], Collection[str]], dict[str, TensorInfo]],
    others: Sequence[Path] = (),
) -> dict[str, TensorInfo]:
    """The same of a checkpoint that is not all there: shards may be cut short behind their header.

    With an index, shards may be missing; `absent` gives their tensors from {name: shard}, and the
    names of all.
    """
    names = list_names(directory)
    found = find_shards(directory, others)
    index = _index(directory, names)
    if index is None:
        if not found:
            refuse_foreign(directory, names)
        shards = _without_index(directory, found)
        return _merge(directory, [found[name] for name in shards], cut_short=True)
    here = sorted(set(index.values()) & found.keys())
    tensors = _merge(directory, [found[name] for name in here], cut_short=True)
    _check_places(directory, {n: f for n, f in index.items() if f in here}, tensors)
    return tensors | absent({n: f for n, f in index.items() if f not in here}, index.keys())


def _index(directory: Path, names: list[str]) -> dict[str, str] | None:
    found = [n for n in names if n.endswith(INDEX_SUFFIX)]
    if "model" + INDEX_SUFFIX in found:
        found = ["model" + INDEX_SUFFIX]
    if len(found) > 1:
        raise ContainerError(f"{directory}: several indexes ({_list(found)}); keep one")
    return _read_index(directory / found[0]) if found else None


def _read_index(path: Path) -> dict[str, str]:
    weight_map = read_json(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ContainerError(f"{path}: weight_map must map tensor names to files")
    for tensor, file in weight_map.items():
        if not isinstance(file, str) or not file.endswith(SUFFIX) or re.search(r"[/\\\0]", file):
            raise ContainerError(
                f"{path}: tensor {shown(tensor)}: {shown(str(file))} is no name of a "
                f"{SUFFIX} file in this directory"
            )
    return weight_map


def _check_index(directory: Path, index: dict[str, str], names: list[str]) -> None:
    first: dict[str, str] = {}
    for tensor, file in index.items():
        first.setdefault(file, tensor)
    missing = sorted(first.keys() - set(names))
    if missing:
        lines = (f"{shown(f)} (first tensor: {shown(first[f])})" for f in missing)
        raise ContainerError(
            f"{directory}: {len(missing)} of {count(len(first), 'shard')} {are(len(missing))} "
            f"missing: {_list(lines)}; download them and start again"
        )
    groups = {m[1] for m in map(_NUMBERED.fullmatch, first) if m}
    unlisted = [n for n in names if (m := _NUMBERED.fullmatch(n)) and m[1] in groups - {None}]
    stray = [n for n in unlisted if n not in first]
    if stray:
        raise ContainerError(
            f"{directory}: the index does not know {_list(stray)}: an index of another version, "
            "or files of two models in one directory"
        )


def _check_places(directory: Path, index: dict[str, str], tensors: dict[str, TensorInfo]) -> None:
    for name, file in index.items():
        if name not in tensors:
            raise ContainerError(
                f"{directory / file}: tensor {shown(name)} is missing; the index says it is here"
            )
        if tensors[name].file.name != file:
            raise ContainerError(
                f"{directory}: tensor {shown(name)} is in {tensors[name].file.name}, but the "
                f"index says {file}"
            )


def _without_index(directory: Path, paths: Mapping[str, Path]) -> list[str]:
    files = sorted(paths)
    if not files:
        raise ContainerError(f"{directory}: no {SUFFIX} files here; is it a model's directory?")
    groups: dict[tuple[str, int], dict[int, str]] = {}
    single = []
    for name in files:
        found = _NUMBERED.fullmatch(name)
        if not found:
            single.append(name)
            continue
        group = groups.setdefault((found[1], int(found[3])), {})
        other = group.setdefault(int(found[2]), name)
        if other != name:
            raise ContainerError(f"{directory}: {other} and {name} have the same number")
    if len(groups) + len(single) > 1:
        raise ContainerError(
            f"{directory}: files of more than one naming scheme and no index: {_list(files)}; "
            "remove those that do not belong to this model"
        )
    for (stem, total), group in groups.items():
        _check_complete(directory, stem, total, group, paths)
    return files


def _check_complete(
    directory: Path, stem: str, total: int, group: dict[int, str], found: Mapping[str, Path]
) -> None:
    start = 0 if 0 in group else 1
    expected = range(start, start + total)
    stray = [name for number, name in group.items() if number not in expected]
    if stray:
        raise ContainerError(f"{directory}: numbered beyond their own total: {_list(stray)}")
    missing = [i for i in expected if i not in group]
    if not missing:
        return
    _, width, total_width = _widths(next(iter(group.values())))
    names = [
        f"{stem}-{i:0{width}}-of-{total:0{total_width}}{SUFFIX}" for i in missing[:_MAX_LISTED]
    ]
    tail = missing == list(range(missing[0], start + total))
    hint = "the last ones: an incomplete download" if tail else "download them"
    there = [found[name] for name in sorted(group.values())]
    tensors = _merge(directory, there, cut_short=True)
    raise ContainerError(
        f"{directory}: found {len(group)} of {total} shards with "
        f"{count(len(tensors), 'tensor')}; missing ({hint}): {_list(names, len(missing))}"
    )


def _widths(name: str) -> list[int]:
    """The lengths of a numbered name's stem, number and total."""
    return [len(part) for part in name.removesuffix(SUFFIX).replace("-of-", "-").rsplit("-", 2)]


def _merge(
    directory: Path, files: Sequence[Path], *, cut_short: bool = False
) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    defects: list[str] = []
    unread: list[ReadError] = []
    for file in files:
        try:
            found, _ = read_header(file, cut_short=cut_short)
        except ReadError as e:
            unread.append(e)
            continue
        except ContainerError as e:
            defects.append(str(e))
            continue
        for name, info in found.items():
            other = tensors.setdefault(name, info)
            if other is not info:
                raise ContainerError(
                    f"{directory}: tensor {shown(name)} is in both {other.file.name} and "
                    f"{file.name}"
                )
    if unread:
        raise _storage(directory, unread, len(files))
    if defects:
        others = f" (and {count(len(defects) - 1, 'more damaged shard')})" if defects[1:] else ""
        raise ContainerError(defects[0] + others)
    return tensors


def _storage(directory: Path, errors: Sequence[ReadError], files: int) -> ReadError:
    """One bad file is told from a bad mount."""
    if len(errors) < files:
        others = f"the other {count(files - 1, 'file')} can be read"
        if len(errors) > 1:
            others = f"{len(errors)} of {files} files cannot be read"
        return ReadError(f"{errors[0]} ({others})")
    if files == 1:
        return errors[0]
    return ReadError(
        f"{directory}: none of its {files} files can be read, so the drive or its mount is at "
        f"fault rather than a file: {errors[0]}"
    )


def _list(names: Iterable[str], total: int | None = None) -> str:
    items = list(names)
    more = (total or len(items)) - len(items[:_MAX_LISTED])
    return ", ".join(items[:_MAX_LISTED]) + (f" and {more} more" if more else "")
