"""`coli completion`: what a shell needs to complete commands, flags, choices and directories."""

from __future__ import annotations

from collections.abc import Mapping

import click
from click.shell_completion import ShellComplete, get_completion_class, shell_complete

from colibri.errors import ConfigError

_PROGRAM = "coli"
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the script with which SHELL completes commands, flags, choices and directories.

    \b
    The line that reads it in, and where it belongs:
      bash  eval "$(coli completion bash)"      ~/.bashrc
      zsh   eval "$(coli completion zsh)"       ~/.zshrc, after compinit
      fish  coli completion fish | source       ~/.config/fish/config.fish
    """
    from colibri.cli.app import COMPLETE_VARIABLE, cli

    click.echo(_class_of(shell)(cli, {}, _PROGRAM, COMPLETE_VARIABLE).source())


def _class_of(shell: str) -> type[ShellComplete]:
    found = get_completion_class(shell)
    assert found is not None
    return found


def complete(cli: click.Command, environ: Mapping[str, str]) -> int:
    """Answer the script: what may stand where the cursor is."""
    from colibri.cli.app import COMPLETE_VARIABLE

    asked = environ[COMPLETE_VARIABLE]
    if not _from_script(asked, environ):
        raise ConfigError(
            f"{COMPLETE_VARIABLE} is for the scripts that `coli completion` prints; unset it"
        )
    return shell_complete(cli, {}, _PROGRAM, COMPLETE_VARIABLE, asked)


def _from_script(asked: str, environ: Mapping[str, str]) -> bool:
    """Whether the variables are as the scripts set them: click trusts them."""
    shell, _, instruction = asked.partition("_")
    if shell not in _SHELLS or instruction != "complete":
        return False
    # The position of the word; fish gives the word itself.
    position = environ.get("COMP_CWORD", "")
    return bool(environ.get("COMP_WORDS")) and (shell == "fish" or position.isdecimal())
