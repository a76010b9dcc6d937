"""How much of each expert comes from which drive: as given, or by what the drives can do now.

Each drive is measured alone, then together: one is read from only if that makes reading faster.
Two directories on one drive, or a drive so slow that the others would wait for it, bring nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from colibri.container.layerexperts import LayerExperts
from colibri.errors import ConfigError
from colibri.experts.base import ReadFunction
from colibri.experts.readbench import Bench, Choice
from colibri.experts.reads.sources import Drive, Sources
from colibri.words import count

SECONDS = 0.12  # for each measurement
GAIN = 1.05  # that a further drive must bring

Rate = Callable[[], float | None]  # bytes a second with the drives' weights as they are
Weights = Sequence[float] | Literal["auto"]


def weighted_sources(
    drives: Sequence[Drive],
    layers: Mapping[int, LayerExperts],
    weights: Weights,
    slots: Sequence[memoryview],
    read: ReadFunction | None,
    choice: Choice,
) -> Sources:
    """slots: memory to read into while measuring, each large enough for any expert.

    Raises ConfigError if the weights do not fit.
    """
    sources = Sources(drives, layers)
    if weights != "auto":
        give_weights(drives, weights)
        return sources
    copies = 1 + sum(drive.mirror is not None for drive in drives)

    def on_every_drive(layer: int, expert: int) -> bool:
        return len(sources.copies(layer, expert)) == copies

    bench = Bench(list(layers.values()), slots, read, SECONDS, on_every_drive)
    if bench:  # else no two drives can be compared, and what they have is used alike
        measure_weights(drives, lambda: bench.rate_from(Sources(drives, layers), choice))
        sources.reset()
    return sources


def give_weights(drives: Sequence[Drive], weights: Sequence[float]) -> None:
    """Raises ConfigError if these are not as many as drives, or nothing would be read."""
    if len(weights) != len(drives):
        names = ", ".join(str(drive.directory) for drive in drives)
        raise ConfigError(
            f"--disk-weights: {count(len(weights), 'weight')} for "
            f"{count(len(drives), 'directory', 'directories')}; give one for each of {names}"
        )
    for drive, weight in zip(drives, weights, strict=True):
        drive.weight = weight


def measure_weights(drives: Sequence[Drive], rate: Rate) -> None:
    """Sets each drive's weight to its rate, or to 0 where it brings nothing.

    The model's own directories count as one: of what lies spread over them there is one copy. They
    come first where they are as fast, or nearly.
    """
    own = [drive for drive in drives if drive.mirror is None]
    groups = [own, *([drive] for drive in drives if drive.mirror is not None)]
    alone = [_rate_of([group], [1.0], drives, rate) for group in groups]
    chosen: list[int] = []
    best = 0.0
    for i in sorted(range(len(groups)), key=lambda i: -alone[i] * (1 if i else GAIN)):
        wanted = [*chosen, i]
        some = [groups[j] for j in wanted], [alone[j] for j in wanted]
        together = _rate_of(*some, drives, rate) if chosen else alone[i]
        if together > GAIN * best:
            chosen, best = wanted, together
    _weigh([groups[j] for j in chosen], [alone[j] for j in chosen], drives)


def _rate_of(
    groups: Sequence[Sequence[Drive]],
    weights: Sequence[float],
    drives: Sequence[Drive],
    rate: Rate,
) -> float:
    _weigh(groups, weights, drives)
    return rate() or 0.0


def _weigh(
    groups: Sequence[Sequence[Drive]], weights: Sequence[float], drives: Sequence[Drive]
) -> None:
    for drive in drives:
        drive.weight = 0.0
    for group, weight in zip(groups, weights, strict=True):
        for drive in group:
            drive.weight = weight
