"""Settings gathered from flags, environment and file, for whichever table asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from colibri.config.servicelinks import is_service_link
from colibri.config.settings import Setting
from colibri.config.sizes import shown
from colibri.config.upstream import set_for
from colibri.errors import ConfigError

Table = Mapping[str, Setting]


def gather(
    table: Table,
    elsewhere: Collection[str],
    environ: Mapping[str, str],
    file: Path | None,
    flags: Mapping[str, object],
) -> dict[str, Any]:
    """What is asked for of a table: a flag wins over a variable, a variable over the file. What
    loses is not read: a bad value in it harms nobody.

    elsewhere: keys that the file may have for others. A flag that is None was not given. Raises
    ConfigError naming the flag, variable or file key, and what it may be.
    """
    _check_flags(table, flags)
    found = sourced(table, elsewhere, environ, file, flags)
    return {field: table[field].read(value, origin) for field, (value, origin) in found.items()}


def sourced(
    table: Table,
    elsewhere: Collection[str],
    environ: Mapping[str, str],
    file: Path | None,
    flags: Mapping[str, object],
) -> dict[str, tuple[object, str]]:
    """The same before it is read: field -> what is given, and by which flag, variable or key."""
    from_file = _from_file(table, elsewhere, file)
    found: dict[str, tuple[object, str]] = {}
    for field, setting in table.items():
        if (value := flags.get(field)) is not None:
            found[field] = value, setting.flag
        elif (variable := _variable(setting, environ)) is not None:
            found[field] = variable[1], variable[0]
        elif field in from_file:
            found[field] = from_file[field], f"{file}: {field}"
    return found


def near(name: str, known: Collection[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, sorted(known), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _check_flags(table: Table, flags: Mapping[str, object]) -> None:
    if strays := sorted(set(flags) - set(table)):
        raise ConfigError(f"unknown setting {strays[0]!r}; known: {', '.join(table)}")


def _variable(setting: Setting, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The variable that speaks for a setting, and what it says."""
    text = environ.get(setting.env)
    if text and not is_service_link(setting.env, text):
        return setting.env, text
    upstream = set_for(setting, environ)
    if upstream is None:
        return None
    return upstream.env, upstream.translate(environ[upstream.env])


def _from_file(table: Table, elsewhere: Collection[str], path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    values, known = _read_toml(path), [*table, *elsewhere]
    if strays := sorted(set(values) - set(known)):
        hint = near(strays[0], known) or f"; known: {', '.join(known)}"
        raise ConfigError(f"{path}: unknown key {shown(strays[0])}{hint}")
    return values


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read it: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from None
