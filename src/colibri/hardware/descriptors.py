"""How many files this process may have open."""

from __future__ import annotations

import os
import resource


def open_now() -> int:
    """Descriptors in use; 0 where the system does not say."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def limit_now() -> int | None:
    """As many as may be open as the limit stands; None: any number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def most_open() -> int | None:
    """As many as the process may allow itself; None: any number."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if hard == resource.RLIM_INFINITY else hard


def allow(count: int) -> int | None:
    """Raises the limit of open files to `count`, or as near as the process may; what it is then.
    It is never lowered. None: any number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if wanted <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a sandbox may refuse it
        return soft
    return wanted
