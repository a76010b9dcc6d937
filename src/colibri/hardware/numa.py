"""Memory over several NUMA nodes: which there are, and new memory spread over them page by page.

On a machine with several sockets a page lies where the thread runs that touches it first. A trunk
that one node's threads have loaded is then read through that node's memory alone; interleaved, it
is read through all. A thread's policy is inherited by the threads that it starts.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from colibri.config.choices import AutoOnOff
from colibri.errors import ConfigError

logger = logging.getLogger("colibri")

DEFAULT, INTERLEAVE = 0, 3  # of linux/mempolicy.h
_SET = {"x86_64": 238, "aarch64": 237}  # set_mempolicy
_GET = {"x86_64": 239, "aarch64": 236}  # get_mempolicy
_LONG_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)


def memory_nodes(root: Path = Path("/")) -> tuple[int, ...]:
    """The nodes that have memory and that this process may use; empty if the system names none.

    root: where /proc and /sys are, for tests.
    """
    folder = root / "sys/devices/system/node"
    found = _listed(_text(folder / "has_memory")) or _listed(_text(folder / "online"))
    status = re.search(r"^Mems_allowed_list:\s*(\S+)$", _text(root / "proc/self/status"), re.M)
    allowed = _listed(status[1]) if status else found
    return tuple(sorted(found & allowed))


class Policies:
    """The memory policy of the calling thread, by system call. Both raise OSError."""

    def get(self) -> int:
        mode = ctypes.c_int()
        _call(_GET, ctypes.byref(mode), None, ctypes.c_ulong(0), None, ctypes.c_ulong(0))
        return mode.value

    def set(self, policy: int, nodes: Sequence[int]) -> None:
        words = max(nodes, default=0) // _LONG_BITS + 1
        mask = (ctypes.c_ulong * words)()
        for node in nodes:
            mask[node // _LONG_BITS] |= 1 << node % _LONG_BITS
        # One bit more than there are: the kernel takes the number to be one too large.
        bits = words * _LONG_BITS + 1 if nodes else 0
        _call(_SET, policy, ctypes.byref(mask) if nodes else None, ctypes.c_ulong(bits))


@contextmanager
def spread(
    mode: AutoOnOff, root: Path = Path("/"), policies: Policies | None = None
) -> Iterator[tuple[int, ...]]:
    """Memory that this thread, and those that it starts meanwhile, touch first is interleaved over
    the nodes given; none: it is not. Threads started meanwhile keep that.

    "auto" leaves a single node, and a policy that is set already (numactl), as they are; where the
    system refuses it is a warning, with "on" a ConfigError.
    """
    policies = policies or Policies()
    nodes = () if mode == "off" else memory_nodes(root)
    if not _begun(mode, nodes, policies):
        yield ()
        return
    try:
        yield nodes
    finally:
        policies.set(DEFAULT, ())


def _begun(mode: AutoOnOff, nodes: Sequence[int], policies: Policies) -> bool:
    if len(nodes) < 2:
        if mode == "on":
            logger.warning("--numa on: this machine has one memory node, nothing to spread over")
        return False
    try:
        if mode == "auto" and policies.get() != DEFAULT:
            return False
        policies.set(INTERLEAVE, nodes)
    except OSError as error:
        text = f"the system refuses memory policies ({error.strerror or error})"
        if mode == "on":
            raise ConfigError(f"--numa on: {text}; allow set_mempolicy, or use auto") from None
        logger.warning("numa auto: %s: memory stays on the node that touches it first", text)
        return False
    return True


def _call(numbers: Mapping[str, int], *arguments: object) -> None:
    number = numbers.get(platform.machine()) if platform.system() == "Linux" else None
    if number is None:
        raise OSError(f"unknown on {platform.system()} {platform.machine()}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), *arguments):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _listed(text: str) -> set[int]:
    """Numbers as the kernel lists them: 0-1,4."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        if bounds := re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part):
            numbers.update(range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1))
    return numbers


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
