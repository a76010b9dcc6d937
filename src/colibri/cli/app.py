"""The command group, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import terminal
from colibri.cli.errors import BROKEN_PIPE, INTERRUPTED, exit_code, message
from colibri.cli.grouping import COMMAND_GROUPS, COMMANDS, Commands

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETE_VARIABLE = "_COLI_COMPLETE"  # set by what `coli completion` prints

_WELCOME = """\
colibri runs mixture-of-experts language models that are larger than memory.

  coli chat                    talk; a small model comes with colibri
  coli info                    what that model is
  coli plan --model DIR        what a model of yours would take, and how fast it would be

DIR is a checkpoint as downloaded from Hugging Face, for example by `hf download`: config.json,
tokenizer.json and .safetensors files. colibri downloads nothing itself. README.md tells more.

`coli --help` lists the commands, `coli COMMAND --help` the options of one."""


_WIDTH = max(map(len, COMMANDS))


class LazyGroup(Commands):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"colibri.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Without importing the commands."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=COMMANDS[name]) for name in names] + options

    def alone(self, ctx: click.Context) -> str:
        return _WELCOME

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in COMMAND_GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{_WIDTH}}", text) for name, text in commands.items()])


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
        code = _invoke(list(arguments))
        terminal.flush()
        return code
    except BrokenPipeError:
        terminal.abandon_output()
        return BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:
        return _report(error)


def _invoke(arguments: list[str]) -> int:
    if COMPLETE_VARIABLE in os.environ:
        from colibri.cli.completion import complete

        return complete(cli, os.environ)
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
    # Who stopped it knows that; it is no error.
    kind = "" if exit_code(error) == INTERRUPTED else "error: "
    terminal.say(f"coli: {kind}{message(error)}")
    return exit_code(error)
