"""`coli serve`: a model behind the OpenAI and Anthropic APIs."""

from __future__ import annotations

from typing import Any

import click

from colibri.cli.grouping import Grouped
from colibri.cli.serving import serve, serving_options, take_wishes


@click.command("serve", cls=Grouped)
@serving_options
def command(quiet: bool, **flags: Any) -> None:
    """Serve a model over HTTP, to OpenAI's and Anthropic's clients, until Ctrl-C or `coli stop`.

    Flags of sampling are what a request gets that does not say otherwise. Without --model the small
    embedded model is served.
    """
    serve(take_wishes(flags), quiet)
