"""Files that flags name for output: a missing directory is said, and none is made."""

import importlib

import click
import pytest

from colibri.cli.grouping import COMMANDS
from colibri.cli.talk.history import history
from colibri.cli.talk.saved import save
from colibri.errors import ConfigError

# By command and option: the rest of a call that would come to write the file.
WRITTEN = {
    ("atlas build", "--out"): (),
    ("run", "--stats-json"): ("Once",),
    ("run", "--trace"): ("Once",),
    ("run", "--usage"): ("Once",),
    ("bench", "--json"): (),
    ("bench", "--report"): (),
    ("bench", "--record"): (),
    ("replay", "--json"): ("none.trace",),
    ("replay", "--png"): ("none.trace",),
    ("replay", "--html"): ("none.trace",),
    ("usage export", "--output"): (),
}
SETTINGS = {("run", "--trace"), ("run", "--usage")}  # of every command that runs a model
READ = {
    ("atlas build", "--prompts"),
    ("atlas show", "--file"),
    ("bench", "--compare"),
    ("chat", "--grammar"),
    ("chat", "--json-schema"),
    ("mirror plan", "--heat"),
    ("mirror stage", "--heat"),
    ("run", "--grammar"),
    ("run", "--json-schema"),
    ("score", "--state"),
}


@pytest.mark.parametrize(("command", "flag"), WRITTEN)
def test_a_missing_directory_is_said_at_once_and_not_made(coli, tmp_path, command, flag):
    folder = tmp_path / "no" / "such"
    file = folder / "out"
    result = coli(*command.split(), flag, str(file), *WRITTEN[command, flag])
    assert result.code == 2
    said = f"{flag}: cannot write a file '{file}': there is no directory '{folder}'; make it"
    assert said in result.err
    assert not folder.parent.exists()


@pytest.mark.parametrize("write", [lambda p: history(str(p), {}), lambda p: save(p, [])])
def test_nor_is_it_in_a_chat(tmp_path, write):
    with pytest.raises(ConfigError, match="there is no directory"):
        write(tmp_path / "no" / "such.json")
    assert not (tmp_path / "no").exists()


def test_no_option_that_names_a_file_is_left_out():
    """A new one has to be sorted into the two tables above."""
    found = set()
    for name in COMMANDS:
        command = importlib.import_module(f"colibri.cli.{name}").command
        for words, leaf in leaves(name, command):
            for option in leaf.params:
                if isinstance(option, click.Option) and isinstance(option.type, click.Path):
                    found.add((words, option.opts[-1]))
    assert found - READ == WRITTEN.keys() - SETTINGS
    assert found >= READ


def leaves(words, command):
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from leaves(f"{words} {name}", inner)
    else:
        yield words, command
