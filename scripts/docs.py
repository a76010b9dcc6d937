"""Write what is generated: parts of docs/, and contrib/colibri.toml.

`python -m scripts.docs` writes; with --check it only compares. A generated part of a page stands
between `<!-- NAME: generated ... -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from colibri.cli.app import cli
from colibri.cli.grouping import COMMANDS
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

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EXAMPLE = ROOT / "contrib" / "colibri.toml"
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
        lines.append(f"| `{s.flag}` | `{s.env}` | `{s.field}` | {s.form} | {shown} | {s.help} |")
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


def example_file() -> str:
    """A configuration file in which every setting stands as a comment, with its default."""
    parts = [
        "# An example of ~/.config/colibri/config.toml; docs/configuration.md says more.",
        "# Every line is a comment: what is uncommented holds, everything else has its default.",
        *_example_settings("Engine: every command that loads a model", SETTINGS, EngineConfig()),
        *_example_settings("Server: coli serve and coli web", SERVER_SETTINGS, ServerConfig()),
    ]
    return "\n".join(parts) + "\n"


def _example_settings(
    title: str, settings: tuple[Setting, ...], defaults: EngineConfig | ServerConfig
) -> Iterator[str]:
    yield f"\n# --- {title} ---"
    for s in settings:
        default = getattr(defaults, s.field)
        value = "" if default is None else json.dumps(default)
        yield "\n" + textwrap.fill(s.help, WIDTH, initial_indent="# ", subsequent_indent="# ")
        yield f"# {s.field} = {value}".rstrip() + f"  # {s.form}"


def main(arguments: list[str]) -> int:
    files = {page: filled(page.read_text("utf-8")) for page in sorted(DOCS.glob("*.md"))}
    files[EXAMPLE] = example_file()
    stale = [p for p, text in files.items() if not p.exists() or p.read_text("utf-8") != text]
    for path in stale:
        if "--check" in arguments:
            print(f"{path.name}: what is generated is out of date; run python -m scripts.docs")
        else:
            path.write_text(files[path], encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
