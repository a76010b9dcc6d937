"""What has been staged in a directory so far: by finished runs (the receipt) and a stopped one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from colibri.container.mirror import Key, Layers, experts_by_file, read_records
from colibri.container.receipt import (
    RECEIPT_NAME,
    STAGING_NAME,
    MirrorFile,
    files_of,
    make_receipt,
    read_receipt,
    write_receipt,
)
from colibri.container.writer import naming_the_file
from colibri.errors import ConfigError, ContainerError
from colibri.planner.mirror.plan import Present


class Ledger:
    """Raises ConfigError if the directory is a mirror of another model, ContainerError for a
    damaged receipt or journal. Only begin, add and finish write."""

    def __init__(self, directory: Path, source: Path, identity: str) -> None:
        self._directory = directory
        self._source = source
        self._identity = identity
        self._created = datetime.now(UTC).isoformat(timespec="seconds")
        self._files: dict[str, MirrorFile] = {}
        self.writing = ""  # the file that a stopped run was at
        for name in (RECEIPT_NAME, STAGING_NAME):
            self._take(directory / name)

    def present(self, layers: Layers) -> Present:
        """What need not be staged again: files that are there, at their size."""
        there = [file for file in self._files.values() if self._is_there(file)]
        shards = experts_by_file(layers)
        experts: set[Key] = set()
        complete = {file.name for file in there if file.kind == "shard"}
        for file in there:
            if file.kind == "records":
                experts.update(read_records(self._directory / file.name, layers, self._identity))
        lacking = {k for path, keys in shards.items() if path.name not in complete for k in keys}
        experts.update({key for keys in shards.values() for key in keys} - lacking)
        return Present([f.name for f in there], experts, sum(file.size for file in there))

    def begin(self, name: str) -> None:
        """Before the first byte of a file, so that what is left of it is known to be ours."""
        self.writing = name
        self._save(STAGING_NAME, name)

    def add(self, file: MirrorFile) -> None:
        self._files[file.name] = file
        self.writing = ""
        self._save(STAGING_NAME)

    def finish(self) -> None:
        """The receipt, last of all."""
        self._files = {n: file for n, file in self._files.items() if self._is_there(file)}
        self._save(RECEIPT_NAME)
        journal = self._directory / STAGING_NAME
        with naming_the_file(journal):
            journal.unlink(missing_ok=True)

    def _take(self, path: Path) -> None:
        receipt = read_receipt(path)
        if receipt is None:
            return
        if receipt.model != self._identity:
            raise ConfigError(
                f"{path}: is of another model ({receipt.source}), or the model has changed since; "
                "give another directory, or move this mirror away"
            )
        files, defects = files_of(receipt)
        if defects:
            raise ContainerError(f"{path}: {defects[0]}; move it away and stage again")
        self._files.update({file.name: file for file in files})
        self._created, self.writing = receipt.created, receipt.writing

    def _is_there(self, file: MirrorFile) -> bool:
        path = self._directory / file.name
        return path.is_file() and path.stat().st_size == file.size

    def _save(self, name: str, writing: str = "") -> None:
        files = sorted(self._files.values(), key=lambda file: file.name)
        receipt = make_receipt(self._created, str(self._source), self._identity, files, writing)
        write_receipt(self._directory / name, receipt)
