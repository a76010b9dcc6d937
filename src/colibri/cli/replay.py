"""`coli replay`: what other caches would have done with recorded routing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

import click

from colibri.cli.grouping import Grouped
from colibri.cli.types import Number
from colibri.config.choices import CacheScope, PolicyName
from colibri.errors import ConfigError

if TYPE_CHECKING:
    from colibri.lab.replay.outcome import Outcome

_FILE = click.Path(path_type=Path)


@click.command("replay", cls=Grouped)
@click.argument("trace", type=_FILE)
@click.option(
    "--capacity",
    default="25%,50%,75%",
    show_default=True,
    metavar="N,...",
    help="Slots a layer (12), a share of the experts (25%, 0.25), times the experts a token "
    "(1.5x), or bytes over all layers (8GB).",
)
@click.option(
    "--policy",
    default=",".join([*get_args(PolicyName), "belady"]),
    show_default=True,
    metavar="NAME,...",
    help="Cache policies; belady is the optimum, which knows the future.",
)
@click.option(
    "--scope",
    default="layer",
    show_default=True,
    metavar="NAME,...",
    help="layer: each layer has its slots; global: all layers share them.",
)
@click.option(
    "--pin",
    metavar="N|SIZE",
    help="Pin the most used experts: so many in each layer, or as many as fit into a size, as 2GB.",
)
@click.option(
    "--pin-from",
    type=Number(0, 1),
    default=0.25,
    show_default=True,
    metavar="F",
    help="The first share of the trace, from which --pin ranks experts; counting begins after it.",
)
@click.option(
    "--lookahead",
    type=Number(0, 1),
    metavar="R",
    help="Guess each layer's experts one layer ahead in decode, this share of them right, and have "
    "them read in time.",
)
@click.option("--json", "json_file", type=_FILE, metavar="FILE", help="Write all results.")
@click.option("--png", type=_FILE, metavar="FILE", help="Write a picture of the hit rates.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write a page with picture and table.")
def command(
    trace: Path,
    capacity: str,
    policy: str,
    scope: str,
    pin: str | None,
    pin_from: float,
    lookahead: float | None,
    json_file: Path | None,
    png: Path | None,
    html: Path | None,
) -> None:
    """Run the routing recorded in TRACE (`coli run --trace TRACE`) through caches of other sizes
    and policies, without the model.

    The caches are the engine's own: for a run without lookahead the counts are what the engine
    counted. docs/cache.md explains policies and columns.
    """
    from colibri.container.output import check_writable
    from colibri.lab.replay.capacity import parse_capacities
    from colibri.lab.replay.run import Wanted, replay
    from colibri.routing.trace import TraceFile

    for flag, file in (("--json", json_file), ("--png", png), ("--html", html)):
        if file is not None:
            check_writable(flag, file)
    recorded = TraceFile(trace)
    wanted = Wanted(
        capacities=parse_capacities(capacity, recorded.header.layers),
        policies=_names(policy),
        scopes=_scopes(scope),
        pin=pin,
        pin_from=pin_from,
        lookahead=lookahead,
    )
    _show(replay(recorded, wanted), json_file, png, html)


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def _scopes(text: str) -> list[CacheScope]:
    names = _names(text)
    for name in names:
        if name not in ("layer", "global"):
            raise ConfigError(f"--scope {name!r} is unknown; there is: layer, global")
    return cast("list[CacheScope]", names)


def _show(outcome: Outcome, json_file: Path | None, png: Path | None, html: Path | None) -> None:
    from colibri.container.output import write_bytes, write_text
    from colibri.lab.replay import table
    from colibri.lab.replay.outcome import encode

    for line in table.lines(outcome):
        click.echo(line)
    if json_file is not None:
        write_text(json_file, encode(outcome))
    if png is not None:
        write_bytes(png, table.chart(outcome).png())
    if html is not None:
        write_text(html, table.page(outcome))
