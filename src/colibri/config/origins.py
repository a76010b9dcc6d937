"""Which variable or line of the configuration file names a path that an error is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from colibri.config.engine import default_file
from colibri.config.server import SERVER_BY_FIELD
from colibri.config.settings import BY_FIELD, SETTINGS
from colibri.config.sources import sourced


def origin_of(message: str, environ: Mapping[str, str]) -> str | None:
    """A person may have set it long ago and does not see it in the command. None: there is no such
    path in the message. Raises ConfigError where the sources themselves cannot be read."""
    for path, origin in _named(environ):
        if re.search(rf"(?:^|: |['\"]){re.escape(path)}(?=[:/'\"]|$)", message):
            return None if message.startswith(origin) else origin
    return None


def _named(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each path that is given without a flag, and by whom."""
    file = default_file(environ)
    if environ.get("COLI_CONFIG"):
        yield str(file), "COLI_CONFIG"
    found = sourced(BY_FIELD, SERVER_BY_FIELD, environ, file, {})
    for setting in SETTINGS:
        if setting.names_files and setting.field in found:
            value, origin = found[setting.field]
            paths = setting.read(value, origin)
            yield from ((p, origin) for p in ([paths] if isinstance(paths, str) else paths))
