"""The disk that a path lies on: its file system, whether it turns, which one it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre",
     "virtiofs", "afs"}
)  # fmt: skip
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_VIRTUAL_NAME = re.compile(r"vd[a-z]|xvd[a-z]|pmem|rbd|nbd|zram|loop")
_VIRTUAL_MODEL = re.compile(
    r"QEMU|VBOX|VMware|Virtual|Msft|Google|Amazon|Xen|PersistentDisk", re.IGNORECASE
)
_DEEPEST = 8  # of disks made of disks
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Storage:
    """None: the system does not say."""

    file_system: str | None
    device: str | None  # the disk's name, e.g. nvme0n1
    identity: str | None  # what tells this disk from another of the kind, else its model
    rotational: bool | None

    @property
    def network(self) -> bool:
        return self.file_system in NETWORK

    @property
    def in_memory(self) -> bool:
        return self.file_system in IN_MEMORY


@dataclass(frozen=True)
class _Mount:
    point: Path
    number: str  # major:minor
    file_system: str


def storage_of(path: Path, root: Path = Path("/")) -> Storage:
    """root: where /proc and /sys are, for tests. The path need not exist."""
    mount = _mount_of(Path(_real(path)), root)
    if mount is None:
        return Storage(None, None, None, None)
    disk = _disk(root / "sys/dev/block" / mount.number)
    if disk is None:
        return Storage(mount.file_system, None, None, None)
    # Of a disk that a hypervisor makes up the guest's kernel knows nothing, and says that it turns.
    turns = None if _virtual(disk) else _text(disk / "queue" / "rotational")
    rotational = {"0": False, "1": True}.get(turns or "")
    return Storage(mount.file_system, disk.name, _identity(disk), rotational)


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return path.absolute()


def _mount_of(path: Path, root: Path) -> _Mount | None:
    """The last mount that holds the path: a later one hides an earlier one."""
    found: _Mount | None = None
    for mount in _mounts(root / "proc/self/mountinfo"):
        deeper = found is None or len(mount.point.parts) >= len(found.point.parts)
        if path.is_relative_to(mount.point) and deeper:
            found = mount
    return found


def _mounts(file: Path) -> Iterator[_Mount]:
    for line in (_text(file) or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) >= 5 and kinds[0]:
            point = _ESCAPE.sub(lambda m: chr(int(m[1], 8)), fields[4])
            yield _Mount(Path(point), fields[2], kinds[0])


def _disk(entry: Path) -> Path | None:
    """A partition's whole disk."""
    # A container may not let /sys be looked at: os.path says no where Path.exists() would raise.
    if not os.path.exists(entry):
        return None
    folder = _real(entry)
    return folder.parent if os.path.exists(folder / "partition") else folder


def _virtual(disk: Path, depth: int = 0) -> bool:
    """Whether it, or a disk that it is made of (LVM, RAID, encryption), is one of a hypervisor."""
    if _VIRTUAL_NAME.match(disk.name):
        return True
    said = f"{_text(disk / 'device/vendor') or ''} {_text(disk / 'device/model') or ''}"
    if _VIRTUAL_MODEL.search(said):
        return True
    if depth > _DEEPEST:
        return False
    below = (_disk(part) for part in _entries(disk / "slaves"))
    return any(part is not None and _virtual(part, depth + 1) for part in below)


def _identity(disk: Path) -> str | None:
    names = ("wwid", "device/wwid", "device/serial", "serial", "dm/uuid", "md/uuid", "device/model")
    return next((text for name in names if (text := _text(disk / name))), None)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
