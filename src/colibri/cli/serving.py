"""What `coli serve` and `coli web` share: a model behind HTTP, until it is told to end."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import figures, terminal
from colibri.cli.loading import show_warnings
from colibri.cli.options import (
    Command,
    default_options,
    engine_options,
    server_options,
    take_config,
    take_defaults,
    take_server,
)
from colibri.cli.progress import load_bar
from colibri.words import coli

if TYPE_CHECKING:
    from colibri.config import EngineConfig, ServerConfig
    from colibri.llm import LLM
    from colibri.server.serving import Server


@dataclass(frozen=True)
class Wishes:
    """What `coli serve` and `coli web` take alike. sampling: the operator's, of SamplingParams."""

    engine: EngineConfig
    server: ServerConfig
    sampling: dict[str, Any]


def serving_options(command: Command) -> Command:
    command = server_options(default_options(engine_options(command)))
    text = "No line a request, only warnings and errors."
    return click.option("-q", "--quiet", is_flag=True, help=text)(command)


def take_wishes(flags: dict[str, Any]) -> Wishes:
    """Of the flags, environment and file."""
    server = take_server(flags)
    return Wishes(take_config(flags), server, take_defaults(flags))


def serve(wishes: Wishes, quiet: bool, listens: Callable[[str], None] = lambda _: None) -> None:
    """Until the server is told to end. listens: called with its URL once that is taken."""
    from colibri.cli.paths import model_path
    from colibri.server.serving import bind, url_of

    model_path(wishes.engine.model)
    show_warnings()
    if not quiet:
        logging.getLogger("colibri.server").setLevel(logging.INFO)
    listening = bind(wishes.server)
    _warn(wishes.server)
    url = url_of(listening)
    listens(url)
    _run(wishes, listening, url, quiet)


def _run(wishes: Wishes, listening: socket.socket, url: str, quiet: bool) -> None:
    from colibri.container.hubcache import model_name
    from colibri.llm import model_directory
    from colibri.server.notefile import killed_before, noted
    from colibri.server.service import Service
    from colibri.server.serving import Server, run

    service = Service(wishes.server, wishes.sampling)

    def load() -> LLM:
        from colibri.llm import LLM

        with load_bar(quiet) as on_load:
            return LLM.from_config(wishes.engine, clock=service.clock, on_load=on_load)

    model = wishes.engine.model
    server = Server(service, load, model_name(model, model_directory(model)))
    server.on_ready = lambda: _announce(server, url)
    if before := killed_before(url, os.environ):
        terminal.say(
            f"coli: warning: the server that listened here before (process {before.pid}) was "
            "killed. If memory ran out, the system's log says so (journalctl -k, dmesg): lower "
            f"--ram, or see {coli('doctor', wishes.engine.model)}"
        )
    terminal.say(f"loading the model; {url} answers when it is there")
    with noted(url, os.environ) as token:
        if token is None:
            terminal.say("coli: warning: no directory for this user's state, so no `coli stop`")
        service.stop_token = token
        run(server, listening)
    terminal.say("the server has ended")


def _announce(server: Server, url: str) -> None:
    service = server.service
    llm, plan = service.llm, service.llm.plan
    terminal.say(
        f"serving {service.model_id} at {url}: {llm.load_line}; "
        f"memory {plan.peak_bytes / 1e9:.2f} of {plan.budget_bytes / 1e9:.2f} GB, "
        f"context {figures.count(plan.context, 'token')}"
    )


def _warn(config: ServerConfig) -> None:
    local = config.host in ("localhost", "::1") or config.host.startswith("127.")
    if not local and config.api_key is None:
        terminal.say(
            f"coli: warning: --host {config.host} can be reached from other machines, and anyone "
            "who reaches it may use the model: set --api-key (or COLI_API_KEY)"
        )
    if "*" in config.allowed_host:
        terminal.say("coli: warning: --allowed-host *: any page whose name points here may call")
