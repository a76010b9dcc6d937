"""`coli plan`: what a model would take and how fast it would be, before anything is loaded."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from colibri.cli.grouping import Grouped
from colibri.cli.options import engine_options, take_config
from colibri.cli.types import ModelName
from colibri.config import parse_bytes
from colibri.errors import CapacityError, ConfigError
from colibri.formats.names import Scheme

if TYPE_CHECKING:
    from colibri.planner.document import Document

_SCHEMES = ("auto", "source", *get_args(Scheme))


@click.command("plan", cls=Grouped)
@click.argument("directory", type=ModelName(), required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document; keys: docs/plan.md.")
@click.option(
    "--scheme",
    type=click.Choice(_SCHEMES),
    default="auto",
    show_default=True,
    help="Plan experts as they are (source), or as `coli convert` would pack them; auto: as they "
    "are where they are all there, else int4-gs64.",
)
@click.option(
    "--assume-free", is_flag=True, help="Plan as if the other colibri processes here had ended."
)
@click.option(
    "--disk", metavar="RATE", help="Take this bandwidth, e.g. 3.5GB/s, instead of measuring."
)
@click.option("--memory", metavar="RATE", help="The same for memory, read by all threads.")
@engine_options
def command(
    directory: str | None,
    as_json: bool,
    scheme: str,
    assume_free: bool,
    disk: str | None,
    memory: str | None,
    **flags: Any,
) -> None:
    """Plan the memory of the model in DIRECTORY, and forecast its speed. Nothing is loaded.

    Headers are enough: of a checkpoint that is not downloaded, config.json and the safetensors
    index; better with the beginning of each shard (8 bytes and the header).
    """
    from colibri.cli.paths import model_path
    from colibri.planner.assess import Wishes, assess, open_outline

    if directory is not None:
        flags["model"] = _only_one(directory, flags["model"])
    wishes = Wishes(
        cast(Any, scheme), assume_free, _rate("--disk", disk), _rate("--memory", memory)
    )
    config = take_config(flags)
    others = [Path(name) for name in config.model_dirs]
    document = assess(open_outline(model_path(config.model), others), config, wishes)
    _show(document, as_json)
    if not document.fits:
        raise CapacityError(_refusal(document))


def _only_one(directory: str, model: str | None) -> str:
    if model is not None:
        raise ConfigError(f"DIRECTORY {directory} and --model {model}: give one of them")
    return directory


def _rate(flag: str, text: str | None) -> float | None:
    """Bytes a second."""
    if text is None:
        return None
    try:
        return float(parse_bytes(text.strip().removesuffix("/s")))
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}, each a second: 3.5GB/s") from None


def _show(document: Document, as_json: bool) -> None:
    if as_json:
        from colibri.planner.document import encoded

        click.echo(encoded(document))
        return
    from colibri.planner.report import report

    for line in report(document):
        click.echo(line)


def _refusal(document: Document) -> str:
    missing = document.least_bytes - document.budget_bytes
    return (
        f"it does not fit: the least that works is {math.ceil(document.least_bytes / 1e6):,} MB, "
        f"{missing / 1e6:,.0f} MB more than the budget; raise --ram, or lower --context, "
        "--trunk-bits, --prefill-chunk or --cache-experts as far as they are above their least"
    )
