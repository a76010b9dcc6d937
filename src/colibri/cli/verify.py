"""`coli verify`: a converted model held against its source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from colibri.cli.errors import WANTING
from colibri.cli.options import setting_option, take
from colibri.cli.progress import ProgressLine
from colibri.cli.types import Directory
from colibri.errors import ConfigError
from colibri.words import count

if TYPE_CHECKING:
    from colibri.lab.verify.results import Logits, Summary, Verified

_MOST = 10  # failures told
_WORST = 3  # matrices shown
_DIRECTORY = Directory()


@click.command("verify")
@click.argument("converted", type=_DIRECTORY)
@click.option("--against", "source", type=_DIRECTORY, required=True, metavar="SOURCE")
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="Compare N experts a layer, evenly spread. [default: all]",
)
@click.option(
    "--prompts",
    type=click.IntRange(0),
    metavar="N",
    help="Compare answers to so many of the prompts that ship; 0: no answers. [default: all]",
)
@setting_option("model_dirs")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(
    converted: Path,
    source: Path,
    sample: int | None,
    prompts: int | None,
    model_dirs: str | None,
    as_json: bool,
) -> int:
    """Compare the model in CONVERTED with the one that it was made from.

    Experts and trunk are compared matrix by matrix, answers layer by layer, so that neither model
    has to fit into memory. Exit code 0: as good as its scheme allows; 7: worse. docs/verify.md
    says what is good enough.
    """
    from colibri.cli.paths import model_path
    from colibri.lab.verify.verify import verify

    converted, source = model_path(str(converted)), model_path(str(source))
    if converted.resolve() == source.resolve():
        raise ConfigError(
            f"--against {source}: is the very directory that it would be held against"
        )
    line = ProgressLine()

    def progress(what: str, done: int, total: int) -> None:
        line.update(lambda: f"{what}: {done} of {total}")

    try:
        found = verify(
            converted,
            source,
            others=[Path(name) for name in take(model_dirs=model_dirs).model_dirs],
            sample=sample,
            prompts=prompts,
            progress=progress,
        )
    finally:
        line.close()
    if as_json:
        import msgspec

        from colibri.container.jsonfile import encode_json

        click.echo(msgspec.json.format(encode_json(found), indent=2).decode())
    else:
        for text in _lines(found):
            click.echo(text)
    return 0 if found.good else WANTING


def _lines(found: Verified) -> Iterator[str]:
    yield f"{found.converted} against {found.source} ({found.family}, {found.scheme})"
    yield from _summary("experts", "matrices", found.records)
    yield from _summary("trunk", "tensors", found.trunk)
    if found.logits is not None:
        yield from _logits(found.logits)
    for failure in found.failures[:_MOST]:
        yield f"not good enough: {failure}"
    if len(found.failures) > _MOST:
        yield f"and {len(found.failures) - _MOST} more"
    yield "verdict: " + ("as good as its scheme allows" if found.good else "not good enough")


def _summary(kind: str, unit: str, s: Summary) -> Iterator[str]:
    yield (
        f"{kind:<8} {s.compared} of {s.of} {unit}: cosine {s.cosine_mean:.6f} on average, "
        f"{s.cosine_least:.6f} at least"
    )
    for row in s.worst[:_WORST]:
        if row.cosine < 1.0:
            yield f"{'':<8} {row.cosine:.6f}  {row.name} ({row.scheme})"


def _logits(g: Logits) -> Iterator[str]:
    yield (
        f"answers  {count(g.positions, 'position')}: top-1 {g.top1:.3f}, top-5 {g.top5:.3f}, "
        f"KL {g.kl_mean:.4f} on average, {g.kl_largest:.4f} at most"
    )
    least = min(g.hidden_cosines)
    layer = g.hidden_cosines.index(least)
    yield f"{'':<8} {least:.6f}  hidden states after layer {layer}, where they differ most"
