"""Variables that Kubernetes sets in every pod for a service whose name begins with coli.

For a service `coli` they are COLI_PORT=tcp://10.96.12.7:8000, COLI_SERVICE_HOST,
COLI_PORT_8000_TCP_ADDR and the like; none of them is meant for this program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_ADDRESS = re.compile(r"(tcp|udp|sctp)://\S+")
_PORT = re.compile(r"COLI(_[A-Z0-9_]+)?_PORT")
_PART = re.compile(
    r"COLI(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?"
    r"|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)


def is_service_link(name: str, text: str) -> bool:
    """Whether a variable is one of them; NAME_PORT, which a person may have set, by its value."""
    if _PART.fullmatch(name):
        return True
    return _PORT.fullmatch(name) is not None and _ADDRESS.fullmatch(text.strip()) is not None


def service_links(environ: Mapping[str, str]) -> set[str]:
    return {name for name, text in environ.items() if is_service_link(name, text)}


def warning_of(links: set[str]) -> list[str]:
    """One line for all of them."""
    if not links:
        return []
    others = f" (and {len(links) - 1} more like it)" if len(links) > 1 else ""
    return [
        f"{min(links, key=len)}{others} is ignored: Kubernetes sets it for a service whose name "
        "begins with coli; `enableServiceLinks: false` in the pod's spec leaves it out"
    ]
