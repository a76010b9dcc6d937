"""`coli convert`: a checkpoint becomes a container; may be stopped and gone on with at any time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from colibri.cli import terminal
from colibri.cli.conversion import closing_line, conversion_progress
from colibri.cli.grouping import Grouped
from colibri.cli.interrupt import Terminated, stop_on_interrupt
from colibri.cli.loading import show_warnings
from colibri.cli.types import Directory
from colibri.errors import Cancelled
from colibri.formats.names import Scheme

if TYPE_CHECKING:
    from colibri.container.manifest import Manifest

_TRUNK: dict[str, Literal["source", 8, 4]] = {"source": "source", "8": 8, "4": 4}


@click.command("convert", cls=Grouped)
@click.argument("source", type=Directory())
@click.argument("destination", type=Directory())
@click.option(
    "--scheme",
    type=click.Choice(get_args(Scheme)),
    default="int4-gs64",
    show_default=True,
    help="How routed experts are quantised.",
)
@click.option(
    "--store-trunk",
    type=click.Choice(["source", "8", "4"]),
    default="source",
    show_default=True,
    help="Precision in which all other weights are stored.",
)
@click.option(
    "--delete-source",
    is_flag=True,
    help="Delete each source file once all that it holds is converted and verified.",
)
@click.option("--force", is_flag=True, help="Start anew, whatever a stopped conversion left.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only warnings and errors.")
def command(
    source: Path,
    destination: Path,
    scheme: Scheme,
    store_trunk: str,
    delete_source: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Convert the checkpoint in SOURCE to a container in DESTINATION.

    Ctrl-C stops; the same command goes on where it stopped.
    """
    show_warnings()
    with stop_on_interrupt() as stop, conversion_progress(quiet) as progress:
        manifest = _convert(
            source,
            destination,
            scheme=scheme,
            store_trunk=_TRUNK[store_trunk],
            delete_source=delete_source,
            force=force,
            progress=progress,
            cancelled=stop.is_set,
        )
    if not quiet:
        terminal.say(closing_line(destination, manifest.files, progress.last))


def _convert(source: Path, destination: Path, **wishes: Any) -> Manifest:
    from colibri.cli.paths import read_config
    from colibri.container.hubcache import located
    from colibri.convert.loop import convert
    from colibri.models.registry import family_for

    source = located(source, os.environ)
    config = read_config(source)
    family = family_for(config)
    weights = family.weights_of(config)
    try:
        return convert(source, destination, weights=weights, family=family.name, **wishes)
    except Terminated:
        raise
    except (Cancelled, KeyboardInterrupt):
        raise Cancelled("stopped; run the same command again to go on from here") from None
