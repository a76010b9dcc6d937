"""`coli doctor`: what is wrong with a model or this machine, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import terminal
from colibri.cli.errors import WANTING
from colibri.cli.grouping import Grouped
from colibri.cli.options import engine_options
from colibri.cli.progress import ProgressLine
from colibri.cli.types import ModelName
from colibri.config import SETTINGS, EngineConfig, default_file
from colibri.errors import ConfigError

if TYPE_CHECKING:
    from colibri.planner.doctor.case import Case, Depth
    from colibri.planner.doctor.finding import Finding, Report

_MEASURED_BYTES = 256 << 20


@click.command("doctor", cls=Grouped)
@click.argument("directory", type=ModelName(), required=False, metavar="[MODEL]")
@click.option("--deep", is_flag=True, help="Check the checksum of every record (reads the model).")
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="With --deep: check N records, evenly over layers and experts.",
)
@click.option("--hash", "hashes", is_flag=True, help="Compare every file with its known SHA-256.")
@click.option("--json", "as_json", is_flag=True, help="Print all findings as JSON.")
@engine_options
def command(
    directory: str | None,
    deep: bool,
    sample: int | None,
    hashes: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Check the model in MODEL and this machine, without loading it.

    Each finding says what is wrong, where, and what to do. Exit code 0: ready, perhaps with
    warnings; 7: not ready. docs/doctor.md lists the checks.
    """
    from colibri.planner.doctor.case import Depth

    if sample is not None and not deep:
        raise ConfigError("--sample needs --deep: it says how many records are read")
    if directory is not None:
        flags["model"] = directory
    report = _examine(flags, Depth(deep, sample, hashes), quiet=as_json)
    if as_json:
        import msgspec

        from colibri.container.jsonfile import encode_json

        click.echo(msgspec.json.format(encode_json(report), indent=2).decode())
    else:
        click.echo(f"{report.model}: {report.verdict}")
    return WANTING if report.verdict == "not ready" else 0


def _examine(flags: Mapping[str, Any], depth: Depth, *, quiet: bool) -> Report:
    from colibri import __version__
    from colibri.planner.doctor.examine import examine
    from colibri.planner.doctor.finding import Report, verdict

    line = ProgressLine()
    case = _case(_config(flags), depth, line)
    findings = []
    for finding in examine(case):
        findings.append(finding)
        line.close()
        if not quiet:
            _show(finding)
    return Report(
        version=__version__,
        model=str(case.model.path),
        verdict=verdict(findings),
        findings=findings,
    )


def _config(flags: Mapping[str, Any]) -> EngineConfig:
    """As a run would take it; what the environment or the file has wrong is a finding, later."""
    given = {setting.field: flags[setting.field] for setting in SETTINGS}
    own = EngineConfig.resolve(environ={}, file=None, **given)
    try:
        file = default_file(os.environ)
        return EngineConfig.resolve(environ=os.environ, file=file, **given)
    except ConfigError:
        return own


def _case(config: EngineConfig, depth: Depth, line: ProgressLine) -> Case:
    from colibri.experts.readbench import DEFAULT_READERS
    from colibri.hardware import probe
    from colibri.hardware.host import host
    from colibri.hardware.iobench import DiskRate, Extent, disk_bandwidth
    from colibri.hardware.neighbours import neighbours
    from colibri.hardware.storage import storage_of
    from colibri.kernels.cpu import active_path
    from colibri.llm import model_directory
    from colibri.planner.doctor.case import Case, ModelFiles, Surroundings

    path = model_directory(config.model)

    @cache
    def measured(extents: tuple[Extent, ...]) -> DiskRate:
        return disk_bandwidth(extents, DEFAULT_READERS, most_bytes=_MEASURED_BYTES)

    machine = Surroundings(
        host=host(),
        storage=storage_of(path),
        cpu_path=active_path() if config.cpu == "auto" else config.cpu,
        rss_bytes=probe.rss_bytes(),
        neighbours=neighbours(),
        environ=os.environ,
        config_file=default_file(os.environ),
        disk_rate=lambda extents: measured(tuple(extents)),
    )

    def progress(what: str, done: int, total: int) -> None:
        line.update(lambda: f"{what}: {100 * done // max(total, 1)} %")

    return Case(
        ModelFiles(path, [Path(name) for name in config.model_dirs]),
        config,
        machine,
        depth,
        progress,
    )


def _show(finding: Finding) -> None:
    where = f" ({finding.where})" if finding.where and finding.where not in finding.what else ""
    text = f"{finding.status:<5} {finding.check:<22} {finding.what}{where}"
    click.echo(terminal.harmless(text))
    if finding.fix and finding.status in ("warn", "fail"):
        click.echo(terminal.harmless(f"{'':<29}-> {finding.fix}"))
