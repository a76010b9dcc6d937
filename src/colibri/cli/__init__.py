"""The `coli` command. Subcommands are imported on use, so that help and errors are instant."""

from __future__ import annotations


def main() -> None:
    import sys

    try:
        from colibri.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before or after run() could take care of it
        code = 130
    sys.exit(code)
