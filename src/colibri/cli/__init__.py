"""The `coli` command. Subcommands are imported on use, so that help and errors are instant."""

from __future__ import annotations


def main() -> None:
    import sys

    from colibri.cli.app import run

    sys.exit(run(sys.argv[1:]))
