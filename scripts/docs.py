"""Write the generated parts of docs/: `python -m scripts.docs`, or with --check only compare.

A generated part stands between `<!-- NAME: generated ... -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from colibri.cli.app import COMMANDS, cli
from colibri.config import (
    OTHER_VARIABLES,
    SERVER_SETTINGS,
    SETTINGS,
    EngineConfig,
    ServerConfig,
    Setting,
    upstream,
)
from scripts import reference

DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 100
_PART = re.compile(r"(<!-- (\w+): generated [^>]*-->\n).*?(<!-- end -->)", re.DOTALL)


def settings_table() -> str:
    return _table(SETTINGS, EngineConfig())


def server_table() -> str:
    return _table(SERVER_SETTINGS, ServerConfig())


def _table(settings: tuple[Setting, ...], defaults: EngineConfig | ServerConfig) -> str:
    lines = ["| flag | variable | file key | values | default | |", "|---|---|---|---|---|---|"]
    for s in settings:
        default = getattr(defaults, s.field)
        shown = "" if default in (None, ()) else f"`{default}`"
        names = f"`{s.env}`" + (f", `{s.upstream.env}`" if s.upstream else "")
        lines.append(f"| `{s.flag}` | {names} | `{s.field}` | {s.form} | {shown} | {s.help} |")
    return "\n".join(lines) + "\n"


def variables_table() -> str:
    rows = [f"| `{name}` | {text} |" for name, text in OTHER_VARIABLES]
    return "\n".join(["| variable | |", "|---|---|", *rows]) + "\n"


def upstream_table() -> str:
    """What the C engine's variables are here."""
    rows = [(u.env, f"`{s.flag}`", u.says) for s in SETTINGS for u in upstream.names_of(s)]
    rows += [
        (n.env, f"`--{n.field.replace('_', '-')}`", "a number; other values are not taken as ours")
        if n.common
        else (n.env, f"`--{n.field.replace('_', '-')}`", "the same values")
        for n in upstream.SAMPLING_NAMES
    ]
    rows += [(a.env, "", f"a notice: {a.says}") for a in upstream.ABSENT]
    lines = [f"| `{env}` | {flag} | {says} |" for env, flag, says in rows]
    return "\n".join(["| C engine | here | values |", "|---|---|---|", *lines]) + "\n"


def help_texts() -> str:
    return "\n".join(_help_blocks())


def _help_blocks() -> Iterator[str]:
    top = click.Context(cli, info_name="coli", terminal_width=WIDTH, **cli.context_settings)
    yield f"```\n{cli.get_help(top)}\n```\n"
    for name in COMMANDS:
        command = cli.get_command(top, name)
        assert command is not None
        context = click.Context(command, parent=top, info_name=name, terminal_width=WIDTH)
        yield f"```\n{command.get_help(context)}\n```\n"
        yield from _subcommands(command, context)


def _subcommands(command: click.Command, parent: click.Context) -> Iterator[str]:
    for name, sub in getattr(command, "commands", {}).items():
        context = click.Context(sub, parent=parent, info_name=name, terminal_width=WIDTH)
        yield f"```\n{sub.get_help(context)}\n```\n"


PARTS: dict[str, Callable[[], str]] = {
    "llm": reference.llm,
    "options": reference.options,
    "sampling": reference.sampling,
    "structure": reference.structure,
    "results": reference.results,
    "errors": reference.error_table,
    "settings": settings_table,
    "server": server_table,
    "variables": variables_table,
    "upstream": upstream_table,
    "help": help_texts,
}


def filled(text: str) -> str:
    """The page with its generated parts as they should be."""
    return _PART.sub(lambda part: part[1] + PARTS[part[2]]() + part[3], text)


def main(arguments: list[str]) -> int:
    stale = 0
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if filled(text) == text:
            continue
        if "--check" in arguments:
            print(f"{page.name}: generated parts are out of date; run python -m scripts.docs")
            stale = 1
        else:
            page.write_text(filled(text), encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
