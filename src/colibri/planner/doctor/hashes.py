"""The check that reads every byte: files against the hashes that are known of them."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from colibri.container.direct import DirectFiles
from colibri.container.files import opened
from colibri.errors import ColibriError
from colibri.planner.doctor.case import Case, ModelFiles
from colibri.planner.doctor.finding import Found, at_most_a_few, failed, passed, skipped
from colibri.planner.doctor.weights import AGAIN
from colibri.words import count

_PIECE_BYTES = 4 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DOWNLOADS = ".cache/huggingface/download"


@dataclass(frozen=True)
class _Known:
    file: Path
    sha256: str


def hashes(case: Case) -> Sequence[Found]:
    """Every file that the manifest lists; of a download, those whose hash the hub's client left."""
    if not case.depth.hashes:
        return [skipped("--hash reads every file and compares it with its known hash")]
    model = case.model
    if model.converted:
        known = list(_of_manifest(case.model))
    else:
        known = list(_of_download(model.weight_files))
    if not known:
        return [skipped("no hash of these files is known here")]
    found = list(_compare(case, known))
    what = f"{count(len(known), 'file')} with the hash that is known"
    return list(at_most_a_few(found)) or [passed(what)]


def _of_manifest(model: ModelFiles) -> Iterator[_Known]:
    places = {file.name: file for file in model.weight_files}
    for entry in model.manifest.files:
        yield _Known(places.get(entry.name, model.path / entry.name), entry.sha256)


def _of_download(files: Sequence[Path]) -> Iterator[_Known]:
    """In the hub's cache a file is a link to its hash; in a local directory notes lie beside."""
    for file in files:
        note = file.parent / _DOWNLOADS / f"{file.name}.metadata"
        words = [file.resolve().name]
        with contextlib.suppress(OSError):
            words += note.read_text(encoding="utf-8-sig", errors="replace")[:4096].split()
        if found := next((word for word in words if _SHA256.fullmatch(word)), None):
            yield _Known(file, found)


def _compare(case: Case, known: Sequence[_Known]) -> Iterator[Found]:
    total, done = sum(_size(k.file) for k in known), 0

    def step(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        case.progress("hashing files", done, total)

    for one in known:
        try:
            if _sha256(one.file, step) != one.sha256:
                what = f"{one.file.name}: its bytes are not those that its hash was made of"
                yield failed(what, one.file, fix=AGAIN)
        except ColibriError as error:
            yield failed(str(error), one.file, fix=AGAIN)


def _sha256(file: Path, step: Callable[[int], None]) -> str:
    with opened(file) as (_, size):
        pass
    digest = hashlib.sha256()
    with contextlib.closing(DirectFiles()) as files:
        for start in range(0, size, _PIECE_BYTES):
            count = min(_PIECE_BYTES, size - start)
            digest.update(files.borrow(file, start, count).data)
            step(count)
    return digest.hexdigest()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # told when it is read
        return 0
