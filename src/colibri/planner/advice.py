"""What would help most: the plan made again with one thing changed, and what that is worth."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from colibri.config import EngineConfig
from colibri.errors import ColibriError
from colibri.formats.packed import INT4
from colibri.models.family import Sizes
from colibri.planner.budget import Machine
from colibri.planner.forecast import Popularity, Rates, forecast
from colibri.planner.model import AsConverted, Model, streamed_layers
from colibri.planner.plan import Plan, draft_plan
from colibri.text.tokenizermemory import NO_TOKENIZER, TokenizerMemory

GB = 1_000_000_000
_LEAST_GAIN = 0.01  # less is not worth a line


@dataclass(frozen=True)
class Question:
    """Everything that a plan and its forecast are made from."""

    config: EngineConfig
    model: Model
    sizes: Sizes
    max_positions: int
    vocab: int
    machine: Machine
    rates: Rates
    popularity: Popularity | None = None
    tokenizer: TokenizerMemory = NO_TOKENIZER

    def plan(self) -> Plan:
        """Also one that does not fit."""
        return draft_plan(
            self.config,
            self.model,
            self.sizes,
            self.max_positions,
            self.vocab,
            self.machine,
            self.tokenizer,
        )


@dataclass(frozen=True)
class Advice:
    change: str
    tokens_per_second: float
    gain: float  # tokens a second more


def advise(question: Question) -> list[Advice]:
    """Changes that give at least a hundredth more, the most helpful first; none where no speed can
    be told, or where the plan does not fit."""
    now = _speed(question)
    if now is None:
        return []
    found = []
    for change, other in _changes(question, question.plan()):
        speed = _speed(other)
        if speed is not None and speed >= now * (1 + _LEAST_GAIN):
            found.append(Advice(change, speed, speed - now))
    return sorted(found, key=lambda advice: -advice.gain)


def _speed(question: Question) -> float | None:
    try:
        plan = question.plan()
    except ColibriError:  # a change may ask for what this model does not have
        return None
    if not plan.fits:
        return None
    return forecast(plan, question.model, question.rates, question.popularity).tokens_per_second


def _changes(now: Question, plan: Plan) -> Iterator[tuple[str, Question]]:
    machine, rates = now.machine, now.rates
    more = dataclasses.replace(machine, total_bytes=machine.total_bytes + GB)
    yield "1 GB more RAM", _with(now, machine=more, ram=f"{plan.budget_bytes + GB}B")
    if rates.disk is not None:
        yield "a disk twice as fast", _with(now, rates=_doubled(rates, "disk"))
    if rates.memory is not None:
        yield "memory twice as fast", _with(now, rates=_doubled(rates, "memory"))
    if rates.compute is not None:
        yield "twice the cores", _with(now, rates=_doubled(rates, "compute"))
    if plan.trunk_bits != 4 and now.model.stored_bits is None:
        yield "the trunk at 4 bits (--trunk-bits 4)", _with(now, trunk_bits=4)
    if plan.context > 1024:
        half = plan.context // 2
        yield f"half of the context (--context {half})", _with(now, context=half)
    if any(n.layout.format is not INT4 for n in streamed_layers(now.model).values()):
        converted = AsConverted(now.model, INT4)
        yield "experts at 4 bits (coli convert)", _with(now, model=converted)


def _doubled(rates: Rates, which: str) -> Rates:
    return dataclasses.replace(rates, **{which: 2 * getattr(rates, which)})


def _with(
    now: Question,
    *,
    machine: Machine | None = None,
    rates: Rates | None = None,
    model: Model | None = None,
    **settings: object,
) -> Question:
    return dataclasses.replace(
        now,
        config=dataclasses.replace(now.config, **settings),  # type: ignore[arg-type]
        machine=machine or now.machine,
        rates=rates or now.rates,
        model=model or now.model,
    )
