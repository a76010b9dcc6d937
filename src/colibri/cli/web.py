"""`coli web`: `coli serve`, and the dashboard on the same port."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import click

from colibri.cli import terminal
from colibri.cli.grouping import Grouped
from colibri.cli.serving import serve, serving_options, take_wishes


@click.command("web", cls=Grouped)
@click.option("--no-open", is_flag=True, help="Say where the page is, and open no browser.")
@serving_options
def command(no_open: bool, quiet: bool, **flags: Any) -> None:
    """Serve a model and a page to talk with it and watch it, and open that in the browser.

    The same port has the APIs of `coli serve`, whose flags these are. With --api-key the page asks
    for the key.
    """
    wishes = take_wishes(flags)
    wishes = replace(wishes, server=replace(wishes.server, page=True))

    def listens(url: str) -> None:
        page = page_url(url)
        terminal.say(f"the dashboard is at {page}")
        if not no_open and has_display(os.environ, sys.platform):
            # Some browsers are waited for until they are closed.
            threading.Thread(target=_open, args=(page,), daemon=True).start()

    serve(wishes, quiet, listens)


def page_url(url: str) -> str:
    """Where a browser on this machine finds a server that may listen on all interfaces."""
    parts = urlsplit(url)
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(parts.hostname or "")
    netloc = parts.netloc if host is None else f"{host}:{parts.port}"
    return f"http://{netloc}/"


def has_display(environ: Mapping[str, str], platform: str) -> bool:
    """Without one only a browser of the terminal would open, over what the server says there."""
    if platform in ("darwin", "win32"):
        return True
    return any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        terminal.say("coli: no browser could be opened")
