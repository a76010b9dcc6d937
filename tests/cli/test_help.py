"""What one sees first: `coli` alone, help in groups, and names that are nearly right."""

from __future__ import annotations

import pytest

from cli.conftest import Coli
from colibri.cli import grouping
from colibri.cli.app import cli
from colibri.config import SERVER_SETTINGS, SETTINGS


def test_alone_it_says_what_it_is_and_what_to_do_first(coli: Coli) -> None:
    shown = coli()
    assert shown.code == 0
    assert shown.err == ""
    for command in ("coli chat", "coli info", "coli plan", "coli --help"):
        assert command in shown.out
    assert "hf download" in shown.out  # where a model comes from
    assert len(shown.out.splitlines()) < 16


def test_help_groups_all_commands(coli: Coli) -> None:
    shown = coli("--help").out
    for title, commands in grouping.COMMAND_GROUPS.items():
        _, _, section = shown.partition(f"{title}:\n")
        section, _, _ = section.partition("\n\n")
        assert [line.split()[0] for line in section.splitlines()] == list(commands)


def test_every_setting_is_in_a_group_and_no_option_in_two() -> None:
    names = [name for text in grouping.OPTION_GROUPS.values() for name in text.split()]
    assert len(names) == len(set(names))
    fields = {setting.field for setting in (*SETTINGS, *SERVER_SETTINGS)}
    assert fields - set(names) == {"model"}  # stands first
    assert set(names) <= _parameters()


def _parameters() -> set[str | None]:
    context = cli.make_context("coli", ["info"])
    commands = [cli.get_command(context, name) for name in grouping.COMMANDS]
    return {p.name for command in commands if command is not None for p in command.params}


@pytest.mark.parametrize("command", ["run", "chat", "serve", "web", "bench", "plan", "doctor"])
def test_long_help_is_in_groups_and_complete(coli: Coli, command: str) -> None:
    shown = coli(command, "--help").out
    assert "\nMemory:\n" in shown
    assert "\nApproximate: " in shown
    for setting in SETTINGS:
        assert shown.count(f"  {setting.flag} ") + shown.count(f" {setting.flag} DIR") >= 1


def test_short_help_has_no_groups(coli: Coli) -> None:
    shown = coli("stop", "--help").out
    assert "Options:" in shown
    assert "Server:" not in shown


@pytest.mark.parametrize("group", ["usage", "atlas", "mirror"])
def test_a_group_alone_shows_its_help(coli: Coli, group: str) -> None:
    alone, asked = coli(group), coli(group, "--help")
    assert (alone.code, alone.err) == (0, "")
    assert alone.out == asked.out
    assert "..." not in alone.out.split("Commands:")[1]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("rnu", "`coli run`"),
        ("usage shwo", "`coli usage show`"),
        ("mirror stge", "`coli mirror stage`"),
        ("run --tempreature 1 x", "'--temperature'"),
        ("serve --prot 1", "'--port'"),
    ],
)
def test_a_name_that_is_nearly_right(coli: Coli, line: str, meant: str) -> None:
    shown = coli(*line.split())
    assert shown.code == 2
    assert shown.err.startswith("coli: error: ")
    assert shown.err.count("\n") == 1
    assert meant in shown.err


def test_a_name_like_no_other(coli: Coli) -> None:
    shown = coli("frobnicate")
    assert shown.code == 2
    assert "mean" not in shown.err
    assert "coli --help" in shown.err
