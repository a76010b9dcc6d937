"""`coli tune`: settings that make a model faster on this machine, kept only if proven."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import figures, terminal
from colibri.cli.errors import NOTHING_SAVED
from colibri.cli.grouping import Grouped
from colibri.cli.options import engine_options, take_config
from colibri.cli.types import ModelName, Number
from colibri.config import BY_FIELD, asked_for, default_file
from colibri.errors import ConfigError
from colibri.words import coli

if TYPE_CHECKING:
    from colibri.config import EngineConfig
    from colibri.lab.tune.search import Found
    from colibri.planner.profile import Profile

_OUTCOMES = {
    "no gain": "no gain beyond noise: nothing saved",
    "not confirmed": "what was found did not hold in both orders: nothing saved",
    "nothing tried": "the time was over before the model as it is was measured: nothing tried, "
    "nothing saved; give --timeout more seconds",
    "no time": "the time was over before what was found could be proven: nothing saved",
}


@click.command("tune", cls=Grouped)
@click.argument("directory", type=ModelName(), required=False, metavar="[MODEL]")
@click.option(
    "--tokens",
    type=click.IntRange(2),
    default=32,
    show_default=True,
    metavar="N",
    help="Tokens of each answer.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    metavar="N",
    help="Measured passes over the prompts in each trial.",
)
@click.option(
    "--min-gain",
    type=Number(0, 10),
    default=0.03,
    show_default=True,
    metavar="F",
    help="The least gain worth saving, as a fraction.",
)
@click.option(
    "--timeout",
    type=click.IntRange(1),
    default=900,
    show_default=True,
    metavar="S",
    help="The most that all of it may take, in seconds.",
)
@click.option("--show", is_flag=True, help="Show the profile of this model on this machine.")
@click.option("--reset", is_flag=True, help="Delete the profile of this model on this machine.")
@engine_options
def command(
    directory: str | None,
    tokens: int,
    repeats: int,
    min_gain: float,
    timeout: int,
    show: bool,
    reset: bool,
    **flags: Any,
) -> int:
    """Find settings that make the model in MODEL faster on this machine.

    Real prompts are answered with other numbers of threads and readers, direct or buffered reads,
    smaller caches and lookahead. A profile is saved if the gain holds in both orders; every later
    run takes it as its defaults. Exit code 0: saved; 8: nothing saved. docs/tune.md explains it.
    """
    if directory is not None:
        flags["model"] = directory
    flags["profile"] = "off"
    given = asked_for(os.environ, default_file(os.environ), {f: flags[f] for f in BY_FIELD})
    config = take_config(flags)
    path, others = _model(config), [Path(name) for name in config.model_dirs]
    file = _file(path, others)
    if show or reset:
        return _kept(path, others, file, reset=reset)
    _check_savable(file)
    found = _search(config, set(given), tokens, repeats, min_gain, timeout)
    return _saved(found, path, others, file)


def _model(config: EngineConfig) -> Path:
    from colibri.cli.paths import model_path

    return model_path(config.model)


def _file(model: Path, others: Sequence[Path]) -> Path:
    from colibri.planner.profile import profile_path

    file = profile_path(model, os.environ, others)
    if file is None:
        raise ConfigError("there is no place for a profile: set HOME or XDG_CONFIG_HOME")
    return file


def _check_savable(file: Path) -> None:
    from colibri.planner.profile import check_savable

    check_savable(file)


def _search(
    config: EngineConfig, given: set[str], tokens: int, repeats: int, gain: float, seconds: int
) -> Found:
    from colibri.lab.tune.search import Wishes
    from colibri.lab.tune.trial import ProcessRunner, Work
    from colibri.lab.tune.tune import tune

    runner = ProcessRunner(Work(tokens, repeats))
    return tune(config, given, runner, Wishes(gain, seconds), terminal.say)


def _saved(found: Found, model: Path, others: Sequence[Path], file: Path) -> int:
    if found.gains:
        click.echo(
            f"proof: {found.base_speed:.2f} -> {found.speed:.2f} tok/s, gains "
            f"{' and '.join(f'{100 * gain:+.1f} %' for gain in found.gains)}, "
            f"noise {100 * found.noise:.1f} %"
        )
    if found.outcome != "confirmed":
        click.echo(_OUTCOMES[found.outcome])
        return NOTHING_SAVED
    from colibri.lab.tune.tune import profile_of
    from colibri.planner.profile import save

    profile = profile_of(found, model, others)
    save(file, profile)
    for line in _lines(profile, file):
        click.echo(line)
    return 0


def _kept(model: Path, others: Sequence[Path], file: Path, *, reset: bool) -> int:
    from colibri.planner.profile import load, remove

    if reset:
        there = remove(file)
        click.echo(f"deleted {file}" if there else f"there is no profile of {model}")
        return 0
    if not file.is_file():
        tune = coli("tune", str(model))
        click.echo(f"there is no profile of {model} on this machine; `{tune}` makes one")
        return 0
    for line in _lines(load(file, model, others), file):
        click.echo(line)
    return 0


def _lines(profile: Profile, file: Path) -> Iterator[str]:
    import time

    yield f"{'profile':<11}{file}"
    yield f"{'model':<11}{profile.name} ({profile.model})"
    machine = profile.machine
    memory = figures.size(machine.memory_bytes)
    cores = figures.count(machine.cores, "core")
    yield f"{'machine':<11}{machine.cpu}, {cores}, {memory}, disk {machine.disk}"
    settings = ", ".join(f"{name} {value}" for name, value in profile.settings.items())
    yield f"{'settings':<11}{settings}"
    yield (
        f"{'gain':<11}{100 * profile.gain:.1f} % at least, {profile.base_tps:.2f} -> "
        f"{profile.tps:.2f} tok/s, noise {100 * profile.noise:.1f} %"
    )
    day = time.strftime("%Y-%m-%d", time.localtime(profile.tuned_unix))
    yield f"{'measured':<11}{day}, colibri {profile.colibri}"
