"""A converted model against its source: experts, trunk, answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import colibri
from colibri.container.reader import Container, open_container
from colibri.errors import ConfigError, ContainerError
from colibri.lab.prompts import prompt_ids
from colibri.lab.verify import results
from colibri.lab.verify.records import MATRICES, compare_experts
from colibri.lab.verify.trunk import compare_trunks
from colibri.lab.verify.walk import walk
from colibri.models.registry import family_for

OnProgress = Callable[[str, int, int], None]  # what, how many done, of how many


def verify(
    converted: Path,
    source: Path,
    *,
    others: Sequence[Path] = (),
    sample: int | None = None,
    prompts: int | None = None,
    progress: OnProgress = lambda what, done, total: None,
) -> results.Verified:
    """others: directories with more of the converted model's files. sample: experts a layer, None
    for all; prompts: how many, None for all, 0 for no logits.

    Raises ConfigError if the two are not one model, and what reading raises.
    """
    a, b = _opened(source), _opened(converted, others)
    family = family_for(a.config)
    config = family.parse(a.config)
    if family_for(b.config) != family or family.parse(b.config) != config:
        raise ConfigError(
            f"{converted} is no conversion of {source}: their config.json describe two models"
        )
    if lost := a.expert_layers().keys() ^ b.expert_layers().keys():
        raise ContainerError(
            f"{converted}: the experts of layer {min(lost)} are in only one of the two models"
        )
    experts = _experts(a, b, sample, progress)
    trunk = _trunk(a, b, progress)
    scheme = results.coarsest([row.scheme for row in (*experts, *trunk)])
    limits, logits = results.LIMITS[scheme], None
    if prompts != 0:
        ids = prompt_ids(source, config.vocab_size, prompts)
        logits = results.of_logits(walk(a, b, ids, partial(_steps, progress)))
    return results.Verified(
        version=colibri.__version__,
        source=str(source),
        converted=str(converted),
        family=family.name,
        scheme=scheme,
        limits=limits,
        records=results.summary(experts, _matrices(b)),
        trunk=results.summary(trunk, len(trunk)),
        logits=logits,
        failures=results.failures([*experts, *trunk], logits, limits),
    )


def _opened(path: Path, others: Sequence[Path] = ()) -> Container:
    return open_container(path, lambda c: family_for(c).weights_of(c), others=others)


def _experts(
    a: Container, b: Container, sample: int | None, progress: OnProgress
) -> list[results.Matrix]:
    layers = b.expert_layers()
    total = sum(min(layer.num_experts, sample or layer.num_experts) for layer in layers.values())
    step = _steps(progress, "comparing experts", total)
    found = compare_experts(a.expert_layers(), layers, sample, step)
    return [results.of_record(one) for one in found]


def _trunk(a: Container, b: Container, progress: OnProgress) -> list[results.Matrix]:
    step = _steps(progress, "comparing the trunk", len(a.names()))
    return [results.of_tensor(one) for one in compare_trunks(a, b, step)]


def _matrices(b: Container) -> int:
    return len(MATRICES) * sum(layer.num_experts for layer in b.expert_layers().values())


def _steps(progress: OnProgress, what: str, total: int) -> Callable[[], None]:
    done = count(1)
    return lambda: progress(what, next(done), total)
