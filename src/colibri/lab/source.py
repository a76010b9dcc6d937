"""Which colibri was measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import colibri


def version() -> str:
    return colibri.__version__


def commit() -> str | None:
    """The commit of the sources in use, with "+" if they differ from it; None if not a checkout."""
    package = Path(colibri.__file__).parent
    root = _git(package, "rev-parse", "--show-toplevel")
    # An installed package may lie inside somebody else's repository.
    if root is None or package != Path(root) / "src" / "colibri":
        return None
    head = _git(package, "rev-parse", "HEAD")
    changed = _git(package, "status", "--porcelain", "--untracked-files=no")
    return None if head is None else head + ("+" if changed else "")


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
