"""Whether a mirror is what it should be, byte by byte: against its receipt, against the model.

Nothing is changed, and nothing stops at the first failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from colibri.container.files import list_names, opened
from colibri.container.header import read_header
from colibri.container.mirror import Layers, experts_by_file, header_bytes
from colibri.container.receipt import (
    RECEIPT_NAME,
    MirrorFile,
    Receipt,
    files_of,
    is_whole,
    parse_receipt,
)
from colibri.container.spec import parse_record_name
from colibri.errors import ConfigError, ContainerError
from colibri.planner.mirror.content import Step, digest, file_content
from colibri.planner.mirror.source import LayersOf, check_source
from colibri.planner.mirror.verdict import Verdict
from colibri.words import count


def verify_mirror(
    directory: Path,
    model: Path | None,
    layers_of: LayersOf,
    step: Step = lambda nbytes: None,
    others: Sequence[Path] = (),
) -> Verdict:
    """Every file of the mirror is read once, and with a model the model's counterpart too.

    others: directories with more of the model's files. step: called every few MB, may raise to
    stop. Raises ConfigError where there is neither receipt nor model, ContainerError where there
    is no directory.
    """
    list_names(directory)
    try:
        receipt = parse_receipt(directory / RECEIPT_NAME)
    except ContainerError as error:
        verdict = Verdict("receipt")
        verdict.fail("invalid receipt", RECEIPT_NAME, str(error))
        return verdict
    if receipt is not None:
        return _by_receipt(directory, receipt, model, layers_of, step, others)
    if model is None:
        raise ConfigError(
            f"{directory}: has no receipt ({RECEIPT_NAME}), so give the model with --model; an "
            "unfinished mirror gets its receipt when `coli mirror stage` is done"
        )
    return _full(directory, layers_of(model), step)


def _by_receipt(
    directory: Path,
    receipt: Receipt,
    model: Path | None,
    layers_of: LayersOf,
    step: Step,
    others: Sequence[Path],
) -> Verdict:
    verdict = Verdict("receipt")
    if not is_whole(receipt):
        verdict.fail("invalid receipt", RECEIPT_NAME, "its checksum does not match")
    files, defects = files_of(receipt)
    for defect in defects:
        verdict.fail("invalid receipt entry", RECEIPT_NAME, defect)
    sound = [f for f in _once(verdict, files) if _check_file(verdict, directory, receipt, f, step)]
    _check_records_once(verdict, directory, sound)
    if model is not None:
        check_source(verdict, directory, receipt, sound, model, layers_of, step, others)
    return verdict


def _once(verdict: Verdict, files: Sequence[MirrorFile]) -> Iterator[MirrorFile]:
    seen = set()
    for file in files:
        if file.name in seen:
            verdict.fail("duplicate", file.name, "listed twice in the receipt")
        else:
            seen.add(file.name)
            yield file


def _check_file(
    verdict: Verdict, directory: Path, receipt: Receipt, file: MirrorFile, step: Step
) -> bool:
    """Whether the file is there and what the receipt says."""
    path = directory / file.name
    verdict.files += 1
    if not path.exists():
        verdict.fail("missing", file.name, f"{path} is not there")
        return False
    try:
        with opened(path) as (_, size):
            verdict.nbytes += size
        if size != file.size:
            verdict.fail("size", file.name, f"{count(size, 'byte')}, the receipt says {file.size}")
            return False
        if digest(file_content(path), step) != file.sha256:
            verdict.fail("hash", file.name, "its SHA-256 is not that of the receipt")
            return False
        _, metadata = read_header(path)
        if file.kind == "records" and metadata.get("model") != receipt.model:
            raise ContainerError(f"{path}: its header names another model than the receipt")
    except ContainerError as error:
        verdict.fail("header", file.name, str(error))
        return False
    return True


def _check_records_once(verdict: Verdict, directory: Path, files: Sequence[MirrorFile]) -> None:
    """An expert in two files takes room twice and is read from one."""
    first: dict[str, str] = {}
    for file in files:
        if file.kind == "records":
            for name in read_header(directory / file.name)[0]:
                if parse_record_name(name) and first.setdefault(name, file.name) != file.name:
                    verdict.fail("duplicate", file.name, f"{name} is in {first[name]} too")


def _full(directory: Path, layers: Layers, step: Step) -> Verdict:
    """Without a receipt it is held to be a copy of every file with experts."""
    verdict = Verdict("full")
    for source in experts_by_file(layers):
        copy = directory / source.name
        verdict.files += 1
        if not copy.exists():
            verdict.fail("missing", copy.name, f"{copy} is not there")
            continue
        try:
            _check_copy(verdict, source, copy, step)
        except ContainerError as error:
            verdict.fail("header", copy.name, str(error))
    return verdict


def _check_copy(verdict: Verdict, source: Path, copy: Path, step: Step) -> None:
    with opened(source) as (_, size), opened(copy) as (_, copied):
        verdict.nbytes += copied
    if copied != size:
        verdict.fail("size", copy.name, f"{count(copied, 'byte')}, the model's has {size}")
    elif header_bytes(copy) != header_bytes(source):
        verdict.fail("header", copy.name, f"its header is not that of {source}")
    elif digest(file_content(copy), step) != digest(file_content(source), step):
        verdict.fail("hash", copy.name, f"its content is not that of {source}")
