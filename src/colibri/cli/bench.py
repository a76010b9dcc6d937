"""`coli bench`: how fast, and how near to what the machine allows."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import terminal
from colibri.cli.grouping import Grouped
from colibri.cli.options import engine_options, take_config
from colibri.cli.types import Directory, Number
from colibri.errors import ConfigError

if TYPE_CHECKING:
    from colibri.config import EngineConfig
    from colibri.convert.policy import StoreTrunk
    from colibri.lab.results import Results

_WORKLOAD = (
    "prompt_tokens",
    "new_tokens",
    "warmup",
    "repeat",
    "cold",
    "routing",
    "seed",
    "conversations",
)
_FILE = click.Path(path_type=Path)


@click.command("bench", cls=Grouped)
@click.option(
    "--shape",
    metavar="NAME[:LAYERS]",
    help="Measure a synthetic model of this shape, made on first use: olmoe-1b-7b, qwen3-30b-a3b, "
    "qwen3.6-35b-a3b, mixtral-8x7b, glm-5.2:LAYERS, glm-5.3-flash:LAYERS.",
)
@click.option(
    "--bench-dir",
    type=Directory(),
    metavar="DIR",
    help="Where synthetic models are kept, one at a time. [default: the user's cache]",
)
@click.option(
    "--routing",
    metavar="RULE",
    help="model, uniform, trace:FILE, or some of zipf:S,persist:P,guess:R. "
    "[default: uniform for a shape, else model]",
)
@click.option("--prompt-tokens", type=int, default=128, show_default=True, metavar="N")
@click.option("--new-tokens", type=int, default=32, show_default=True, metavar="N")
@click.option(
    "--warmup", type=int, default=1, show_default=True, metavar="N", help="Runs not counted."
)
@click.option("--repeat", type=int, default=3, show_default=True, metavar="N", help="Runs counted.")
@click.option(
    "--cold", is_flag=True, help="Empty the page cache and the expert cache before each run."
)
@click.option(
    "--cache-fraction",
    type=Number(),
    metavar="F",
    help="Share of a layer's experts that has slots.",
)
@click.option(
    "--conversations",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Also measure N at once, against what the unions of their experts predict.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N")
@click.option(
    "--record", type=_FILE, metavar="FILE", help="Write the last run's routing, for trace:FILE."
)
@click.option("--json", "json_file", type=_FILE, metavar="FILE", help="Write all results.")
@click.option("--report", type=_FILE, metavar="FILE", help="Write a page to look at: FILE.html.")
@click.option(
    "--compare", type=_FILE, nargs=2, metavar="A.json B.json", help="Compare two results; run none."
)
@engine_options
def command(
    shape: str | None,
    bench_dir: Path | None,
    cache_fraction: float | None,
    record: Path | None,
    json_file: Path | None,
    report: Path | None,
    compare: tuple[Path, Path] | None,
    **flags: Any,
) -> None:
    """Measure prefill and decode of a model, and the machine's memory and disk beside them.

    The keys of --json and the floors are explained in docs/benchmarks.md.
    """
    if compare:
        return _compare(*compare)
    _check_files({"--json": json_file, "--report": report, "--record": record})
    given_model = flags["model"] is not None
    workload = {name: flags.pop(name) for name in _WORKLOAD}
    workload["routing"] = workload["routing"] or ("uniform" if shape else "model")
    if shape is not None:
        flags["profile"] = "off"  # it would be another model's
    config = take_config(flags)
    if shape is not None:
        if given_model:
            raise ConfigError("--shape and --model: give one of them")
        config = dataclasses.replace(config, model=str(_synthetic(shape, bench_dir, config)))
    _show(_measure(config, workload, cache_fraction, record), json_file, report)
    return None


def _measure(
    config: EngineConfig,
    workload: dict[str, Any],
    cache_fraction: float | None,
    record: Path | None,
) -> Results:
    from colibri.cli.loading import show_warnings
    from colibri.cli.paths import model_path
    from colibri.lab.gauge import ProcessGauge
    from colibri.lab.measure import measure
    from colibri.lab.summary import summarise
    from colibri.lab.workload import Workload

    show_warnings()
    model_path(config.model)
    wanted = Workload(**workload)
    with ProcessGauge() as gauge:
        measured = measure(
            config,
            wanted,
            gauge=gauge,
            cache_fraction=cache_fraction,
            record=record,
            say=terminal.say,
        )
    return summarise(measured, ["coli", *sys.argv[1:]])


def _synthetic(shape: str, bench_dir: Path | None, config: EngineConfig) -> Path:
    from colibri.lab.folder import default_folder
    from colibri.lab.shapes import find_shape
    from colibri.lab.synthetic import Recipe, obtain

    trunk: StoreTrunk = 4 if config.trunk_bits == "auto" else config.trunk_bits
    recipe = Recipe(find_shape(shape), trunk)
    return obtain(recipe, bench_dir or default_folder(os.environ), terminal.say)


def _check_files(files: dict[str, Path | None]) -> None:
    from colibri.container.output import check_writable

    for flag, file in files.items():
        if file is not None:
            check_writable(flag, file)


def _show(results: Results, json_file: Path | None, report: Path | None) -> None:
    from colibri.container.output import write_text
    from colibri.lab.facts import lines
    from colibri.lab.results import save_results

    for line in lines(results):
        click.echo(line)
    if json_file is not None:
        save_results(json_file, results)
    if report is not None:
        from colibri.lab.report import page

        write_text(report, page(results))


def _compare(a: Path, b: Path) -> None:
    from colibri.lab.compare import comparison
    from colibri.lab.results import load_results

    for line in comparison(load_results(a), load_results(b)):
        click.echo(line)
