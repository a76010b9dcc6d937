"""Settings gathered from flags, environment and file, for whichever table asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from colibri.config.settings import Setting
from colibri.config.sizes import shown
from colibri.config.upstream import names_of
from colibri.errors import ConfigError

Table = Mapping[str, Setting]


def gather(
    table: Table,
    elsewhere: Collection[str],
    environ: Mapping[str, str],
    file: Path | None,
    flags: Mapping[str, object],
) -> dict[str, Any]:
    """What is asked for of a table: a flag wins over a variable, a variable over the file.

    elsewhere: keys that the file may have for others. A flag that is None was not given. Raises
    ConfigError naming the flag, variable or file key, and what it may be.
    """
    return (
        _from_file(table, elsewhere, file)
        | _from_environ(table, environ)
        | _from_flags(table, flags)
    )


def near(name: str, known: Collection[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, sorted(known), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _from_flags(table: Table, flags: Mapping[str, object]) -> dict[str, Any]:
    if strays := sorted(set(flags) - set(table)):
        raise ConfigError(f"unknown setting {strays[0]!r}; known: {', '.join(table)}")
    given = {name: value for name, value in flags.items() if value is not None}
    return {name: table[name].read(v, table[name].flag) for name, v in given.items()}


def _from_environ(table: Table, environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in table.values():
        if text := environ.get(setting.env):
            values[setting.field] = setting.read(text, setting.env)
            continue
        for upstream in names_of(setting):
            if text := environ.get(upstream.env):
                values[setting.field] = setting.read(upstream.translate(text), upstream.env)
                break
    return values


def _from_file(table: Table, elsewhere: Collection[str], path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    values, known = _read_toml(path), [*table, *elsewhere]
    if strays := sorted(set(values) - set(known)):
        hint = near(strays[0], known) or f"; known: {', '.join(known)}"
        raise ConfigError(f"{path}: unknown key {shown(strays[0])}{hint}")
    ours = {key: value for key, value in values.items() if key in table}
    return {key: table[key].read(value, f"{path}: {key}") for key, value in ours.items()}


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read it: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from None
