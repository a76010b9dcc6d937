"""`coli serve`: a model behind the OpenAI and Anthropic APIs."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import terminal
from colibri.cli.loading import show_warnings
from colibri.cli.options import (
    default_options,
    engine_options,
    server_options,
    take_config,
    take_defaults,
    take_server,
)

if TYPE_CHECKING:
    from colibri.config import EngineConfig, ServerConfig
    from colibri.llm import LLM
    from colibri.server.serving import Server


@click.command("serve")
@click.option("-q", "--quiet", is_flag=True, help="No line a request, only warnings and errors.")
@server_options
@default_options
@engine_options
def command(quiet: bool, **flags: Any) -> None:
    """Serve a model over HTTP, to OpenAI's and Anthropic's clients, until Ctrl-C or `coli stop`.

    Flags of sampling are what a request gets that does not say otherwise. Without --model the small
    embedded model is served.
    """
    server_config = take_server(flags)
    config, given = take_config(flags), take_defaults(flags)
    from colibri.cli.paths import model_path
    from colibri.server.serving import bind, url_of

    model_path(config.model)
    show_warnings()
    if not quiet:
        logging.getLogger("colibri.server").setLevel(logging.INFO)
    listening = bind(server_config)
    _warn(server_config)
    _serve(config, server_config, given, listening, url_of(listening))


def _serve(
    config: EngineConfig,
    server_config: ServerConfig,
    given: dict[str, Any],
    listening: socket.socket,
    url: str,
) -> None:
    from colibri.server.notefile import killed_before, noted
    from colibri.server.service import Service, name_of
    from colibri.server.serving import Server, run

    service = Service(server_config, given)

    def load() -> LLM:
        from colibri.llm import LLM

        return LLM.from_config(config, clock=service.clock)

    server = Server(service, load, name_of(config.model))
    server.on_ready = lambda: _announce(server, url)
    if before := killed_before(url, os.environ):
        terminal.say(
            f"coli: warning: the server that listened here before (process {before.pid}) was "
            "killed. If memory ran out, the system's log says so (journalctl -k, dmesg): lower "
            "--ram, or see coli doctor"
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
        f"context {plan.context} tokens"
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
