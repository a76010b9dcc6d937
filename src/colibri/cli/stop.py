"""`coli stop`: end the server on a port, and no other process."""

from __future__ import annotations

import http.client
import os
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from colibri.cli import terminal
from colibri.cli.types import Number
from colibri.config import default_file
from colibri.errors import ColibriError

if TYPE_CHECKING:
    from colibri.server.notefile import Note

_ANSWER_SECONDS = 10.0
_POLL_SECONDS = 0.1


@click.command("stop")
@click.option("--port", metavar="PORT", help="Where the server listens.  [default: 8000]")
@click.option("--host", metavar="HOST", help="Where, if several listen on that port.")
@click.option(
    "--wait", type=Number(0), default=60.0, show_default=True, help="Seconds to wait for its end."
)
def command(port: str | None, host: str | None, wait: float) -> None:
    """End the server that `coli serve` runs on a port, once its running answers have ended.

    It is asked over HTTP, with a token that it left in a file of yours when it started: no process
    is ended that is not that server.
    """
    from colibri.config import ServerConfig
    from colibri.server.notefile import notes, only

    config = ServerConfig.resolve(environ=os.environ, file=default_file(os.environ), port=port)
    found = notes(config.port, os.environ)
    if host is not None:
        found = [note for note in found if urlsplit(note.url).hostname == host.strip("[]")]
    note = only([note for note in found if _listens(note)] or found, config.port)
    _ask(note)
    _await_end(note, wait)
    terminal.say(f"{note.url} has ended")


def _connection(note: Note) -> http.client.HTTPConnection:
    at = urlsplit(note.url)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(at.hostname or "", at.hostname or "")
    return http.client.HTTPConnection(host, at.port, timeout=_ANSWER_SECONDS)


def _listens(note: Note) -> bool:
    connection = _connection(note)
    try:
        connection.connect()
    except OSError:
        return False
    connection.close()
    return True


def _ask(note: Note) -> None:
    connection = _connection(note)
    try:
        headers = {"x-colibri-stop": note.token, "content-length": "0"}
        connection.request("POST", "/v1/colibri/stop", headers=headers)
        response = connection.getresponse()
        said = response.read(10_000)
    except (OSError, http.client.HTTPException) as error:
        raise ColibriError(
            f"{note.url}: no colibri server answers there ({error or type(error).__name__}); "
            "nothing was ended"
        ) from None
    finally:
        connection.close()
    if response.status != 200:
        raise ColibriError(
            f"{note.url}: what listens there is not the server that left the note (it answered "
            f"{response.status} {said[:200]!r}); nothing was ended"
        )


def _await_end(note: Note, seconds: float) -> None:
    until = time.monotonic() + seconds
    while _listens(note):
        if time.monotonic() > until:
            raise ColibriError(
                f"{note.url}: is stopping, and still answers what it was asked before; "
                "--drain-timeout of the server bounds that"
            )
        time.sleep(_POLL_SECONDS)
