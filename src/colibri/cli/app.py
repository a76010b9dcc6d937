"""The command group, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

import click

from colibri.cli import terminal
from colibri.cli.errors import BROKEN_PIPE, exit_code, message

# Name -> what the overview says of it; the module of that name is imported when it is used.
COMMANDS = {
    "run": "Write on from a prompt.",
    "chat": "Talk with a model in the terminal.",
    "score": "Say which of several answers a model finds likely.",
    "serve": "Serve a model over HTTP, to OpenAI's and Anthropic's clients.",
    "web": "Serve a model and its dashboard, and open that in the browser.",
    "stop": "End the server on a port.",
    "convert": "Convert a checkpoint, so that its experts load fast.",
    "info": "Say what a model is, without loading it.",
    "replay": "Run recorded routing through other caches, without the model.",
    "usage": "Show, export or reset which experts a model used.",
    "atlas": "Measure which experts are for which topics.",
    "doctor": "Check a model and this machine, and say what to do.",
    "plan": "Say what a model would take of memory, and how fast it would be.",
    "mirror": "Copy the hot experts to a second drive, to read from both.",
    "tune": "Find settings that make a model faster on this machine.",
    "verify": "Hold a converted model against its source.",
    "bench": "Measure speed, and how near it is to what the machine allows.",
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"colibri.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from colibri import __version__

        click.echo(f"coli {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Mixture-of-experts language models larger than memory, streamed from disk."""


def run(arguments: Sequence[str]) -> int:
    """Run `coli` with these arguments and return its exit code; never raises."""
    terminal.prepare_streams()
    try:
        code = _invoke(list(arguments) or ["--help"])
        terminal.flush()
        return code
    except BrokenPipeError:
        terminal.abandon_output()
        return BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:
        return _report(error)


def _invoke(arguments: list[str]) -> int:
    # Not click's main(): it has exit codes of its own for Ctrl-C, pipes and errors.
    try:
        with cli.make_context("coli", arguments) as context:
            outcome: Any = cli.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    return outcome if isinstance(outcome, int) else 0


def _report(error: BaseException) -> int:
    terminal.flush_quietly()
    if os.environ.get("COLI_DEBUG", "") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    terminal.say(f"coli: error: {message(error)}")
    return exit_code(error)
