"""The `coli` command. Subcommands are imported on use, so that help and errors are instant."""

from __future__ import annotations


def main() -> None:
    import sys

    from colibri.cli.interrupt import TERMINATED, Terminated, end_on_sigterm

    try:
        end_on_sigterm()
        from colibri.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt as stop:  # before or after run() could take care of it
        code = TERMINATED if isinstance(stop, Terminated) else 130
    sys.exit(code)
