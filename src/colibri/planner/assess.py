"""From a model's directory to the whole document: what fits, what it is worth, what would help."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from colibri.config import EngineConfig
from colibri.container.files import list_names
from colibri.container.layerexperts import main_layers
from colibri.container.missing import without_data
from colibri.container.reader import Container, open_container
from colibri.errors import ConfigError
from colibri.experts.reads.sources import open_drives
from colibri.formats.names import Scheme
from colibri.formats.packed import SCHEMES
from colibri.models.family import Family
from colibri.models.registry import family_for
from colibri.planner import rates
from colibri.planner.advice import Question, advise
from colibri.planner.budget import Machine, this_machine
from colibri.planner.document import Document, ModelEntry, document
from colibri.planner.elsewhere import machine_meant, use_what_is_here
from colibri.planner.forecast import Rates, forecast
from colibri.planner.model import AsConverted, Model, streamed_layers
from colibri.planner.usage import recorded_popularity
from colibri.text.tokenizermemory import TokenizerMemory, memory_by_vocabulary, memory_of

_READERS = 4  # to measure the disk with, where the setting leaves it open


@dataclass(frozen=True)
class Wishes:
    """What is asked of the plan, beside the settings."""

    scheme: Literal["auto", "source"] | Scheme = "auto"
    assume_free: bool = False  # as if the other colibri processes had ended
    disk: float | None = None  # bytes a second; None: measured
    memory: float | None = None


def open_outline(path: Path, others: Sequence[Path] = ()) -> Container:
    """A model that may be headers only. others: directories with more of its files."""
    return open_container(
        path, lambda c: family_for(c).weights_of(c), others=others, incomplete=True
    )


def assess(container: Container, config: EngineConfig, wishes: Wishes) -> Document:
    """Also of a model that does not fit, and for a machine that has more than this one. Raises
    ConfigError, and TokenizerError for a damaged tokenizer."""
    family = family_for(container.config)
    short, files = without_data(container)
    model = _model(container, wishes.scheme, bool(short))
    machine = this_machine()
    meant, notes = machine_meant(config, machine)
    notes += use_what_is_here(config) + _on_mirrors(container, config, headers_only=bool(short))
    question = _question(config, container.config, family, model, meant, wishes)
    tokenizer = _tokenizer(container, question.vocab, headers_only=bool(short))
    question = dataclasses.replace(question, tokenizer=tokenizer)
    plan = question.plan()
    plan = dataclasses.replace(plan, notes=plan.notes + notes)
    question = dataclasses.replace(
        question,
        rates=_rates(config, container, wishes),
        popularity=recorded_popularity(config, container),
    )
    smallest = dataclasses.replace(config, ram="1B")
    schemes = sorted({layer.layout.format.name for layer in streamed_layers(model).values()})
    entry = ModelEntry(
        path=str(container.path),
        family=family.name,
        runs=True,
        experts=", ".join(schemes) or "none",
        as_converted=model is not container,
        files=files,
        files_without_data=short,
    )
    return document(
        entry,
        machine,
        plan,
        dataclasses.replace(question, config=smallest).plan().peak_bytes,
        question.rates,
        forecast(plan, model, question.rates, question.popularity),
        advise(question),
    )


def _model(container: Container, scheme: str, short: bool) -> Model:
    """What is not all there is planned as it will be used: converted."""
    if scheme == "auto":
        scheme = "int4-gs64" if short and not container.converted else "source"
    if scheme == "source":
        return container
    if container.converted:
        raise ConfigError(f"--scheme {scheme}: {container.path} is converted already; leave it out")
    return AsConverted(container, SCHEMES[cast(Scheme, scheme)])


def _on_mirrors(
    container: Container, config: EngineConfig, *, headers_only: bool
) -> tuple[str, ...]:
    """Raises as a run would for what is no mirror of the model; of a model that is not there yet it
    can only be seen whether there is a directory."""
    if not config.mirror:
        return ()
    mirrors = [Path(name) for name in config.mirror]
    if headers_only:
        for directory in mirrors:
            list_names(directory)
    else:
        open_drives(main_layers(container.expert_layers()), mirrors)
    return ("the forecast reads from the model's own drive alone: what a mirror adds is not in it",)


def _tokenizer(container: Container, vocab: int, *, headers_only: bool) -> TokenizerMemory:
    """A model that is not there yet will have one."""
    if headers_only and not (container.path / "tokenizer.json").exists():
        return memory_by_vocabulary(vocab)
    return memory_of(container.path)


def _question(
    config: EngineConfig,
    model_config: Mapping[str, Any],
    family: Family,
    model: Model,
    machine: Machine,
    wishes: Wishes,
) -> Question:
    parsed = family.parse(model_config)
    return Question(
        config,
        model,
        family.sizes(parsed),
        parsed.max_position_embeddings,
        parsed.vocab_size,
        machine.assuming_free() if wishes.assume_free else machine,
        Rates(),
    )


def _rates(config: EngineConfig, container: Container, wishes: Wishes) -> Rates:
    """With memory given, another machine is meant, and arithmetic here says nothing about it."""
    readers = _READERS if config.readers == "auto" else config.readers
    disk, memory, compute = wishes.disk, wishes.memory, None
    if memory is None:
        memory = rates.memory_rate()
        compute = rates.compute_rate(2 if config.activations == "int8x2" else 1)
    if disk is None:
        disk = rates.disk_rate(container.expert_layers(), readers)
    return Rates(memory, disk, compute)
