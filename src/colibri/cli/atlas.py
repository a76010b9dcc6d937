"""`coli atlas`: which experts of a model are for which topics."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import figures
from colibri.cli.grouping import Commands
from colibri.cli.options import engine_options, setting_option, take_config, take_some
from colibri.cli.types import ModelName
from colibri.errors import ConfigError

if TYPE_CHECKING:
    from colibri.config import EngineConfig
    from colibri.lab.atlas.file import Atlas

_SHOWN = 5  # specialists of a topic


@click.group("atlas", cls=Commands)
def command() -> None:
    """Measure which experts of a model are for which topics.

    The web page draws an atlas as a cloud of experts; how it is made is explained in docs/atlas.md.
    """


@command.command()
@click.argument("directory", type=ModelName(), required=False, metavar="[MODEL]")
@click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Prompts by topic, as docs/atlas.md shows them, instead of those that ship.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write it, instead of beside the model.",
)
@engine_options
def build(directory: str | None, prompts: Path | None, out: Path | None, **flags: Any) -> None:
    """Read prompts of known topics and write which experts they went to.

    The model is loaded and reads about 6,000 tokens; nothing is generated.
    """
    if directory is not None:
        flags["model"] = directory
    config = _config(take_config(flags))
    from colibri.lab.atlas.topics import own_prompts, read_topics

    topics = read_topics(prompts or own_prompts())
    path = _target(config, out)
    from colibri.cli.loading import load
    from colibri.cli.progress import ProgressLine
    from colibri.lab.atlas.build import build
    from colibri.lab.atlas.file import write_atlas

    line = ProgressLine()
    with load(config, quiet=True).llm as llm:
        try:
            atlas = build(
                llm, topics, lambda done, of: line.update(lambda: f"{done} of {of} prompts read")
            )
        finally:
            line.close()
    write_atlas(path, atlas)
    for text in _description(atlas, path):
        click.echo(text)


@command.command()
@click.argument("directory", type=ModelName(), required=False, metavar="[MODEL]")
@setting_option("model")
@setting_option("model_dirs")
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with an atlas, of any model.",
)
def show(directory: str | None, file: Path | None, **given: str | None) -> None:
    """The topics of a model's atlas, and the experts that are most for each."""
    from colibri.lab.atlas.file import NAME, find_atlas, read_atlas

    if file is not None:
        lines = _description(read_atlas(file), file)
    else:
        from colibri.cli.paths import model_path
        from colibri.experts.usage.file import Subject
        from colibri.runtime import open_model

        config = take_some(**given | {"model": directory or given["model"]})
        path = model_path(config.model)
        subject = Subject.of_model(open_model(path, config))
        found = find_atlas(path, subject, os.environ)
        if found is None:
            raise ConfigError(f"{path}: has no {NAME}; make one with coli atlas build {path}")
        lines = _description(read_atlas(found, subject), found)
    for text in lines:
        click.echo(text)


def _config(config: EngineConfig) -> EngineConfig:
    """Routed as the model itself does, with nothing kept for prompts that come but once."""
    from colibri.lab.atlas.build import approximate

    if problem := approximate(config):
        raise ConfigError(problem)
    return dataclasses.replace(config, prefix_cache=0, usage="off", lookahead="off")


def _target(config: EngineConfig, out: Path | None) -> Path:
    """Proven before the work."""
    from colibri.cli.paths import model_path
    from colibri.container.output import check_writable
    from colibri.experts.usage.file import Subject
    from colibri.lab.atlas.file import default_path, prepare
    from colibri.runtime import open_model

    path = model_path(config.model)
    if out is not None:
        check_writable("--out", out)
        return out
    subject = Subject.of_model(open_model(path, config))
    found = default_path(path, subject, os.environ, embedded=config.model is None)
    prepare(found)
    return found


def _description(atlas: Atlas, path: Path) -> Iterator[str]:
    import numpy as np

    from colibri.lab.atlas import affinity

    tokens = np.array([topic.tokens for topic in atlas.topics])
    selections = np.array([row for layer in atlas.layers for row in layer.selections])
    names = [(n.layer, e) for n in atlas.layers for e in range(len(n.selections))]
    rows = affinity.shares(selections, tokens)
    special = int(affinity.specialists(rows).sum())
    yield f"{'atlas':<13}{path}"
    yield f"{'model':<13}{atlas.model} ({atlas.fingerprint})"
    yield f"{'read':<13}{figures.count(int(tokens.sum()), 'token')} of {len(tokens)} topics"
    yield (
        f"{'experts':<13}{len(rows)} in {figures.count(len(atlas.layers), 'layer')}; {special} "
        f"specialists (one topic has {affinity.SPECIALIST:g} times its even share, or more)"
    )
    shown = ", ".join(f"{share:.0%}" for share in atlas.variance)
    yield f"{'axes':<13}hold {shown} of the differences between experts"
    yield ""
    yield f"{'topic':<14}{'tokens':>7}   experts most for it: layer/expert, share"
    for t, topic in enumerate(atlas.topics):
        best = np.argsort(-rows[:, t], kind="stable")[:_SHOWN]
        listed = (f"{names[e][0]}/{names[e][1]} {rows[e, t]:.0%}" for e in best.tolist())
        yield f"{topic.name:<14}{topic.tokens:>7}   {', '.join(listed)}"
