"""Runs a model as the bench asks: load, warm up, repeat; then what the machine can do at most."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from colibri.config import EngineConfig
from colibri.container.layerexperts import main_layers
from colibri.container.reader import Container
from colibri.errors import ConfigError
from colibri.hardware.iobench import DiskRate, Extent, drop_page_cache
from colibri.kernels import cpu
from colibri.lab.clock import StepClock, StepRecord
from colibri.lab.gauge import Gauge
from colibri.lab.routing import RoutingKit, parse_routing
from colibri.lab.samples import Bursts, Samples
from colibri.lab.together import full_steps
from colibri.lab.workload import Workload
from colibri.llm import LLM, model_directory
from colibri.models.registry import family_for
from colibri.planner.plan import Plan
from colibri.runtime import open_model
from colibri.sampling import SamplingParams

Say = Callable[[str], None]


@dataclass(frozen=True)
class Answered:
    """One repeat."""

    ttft_seconds: float
    prefill: list[StepRecord]
    decode: list[StepRecord]
    touched: dict[int, int]  # distinct experts of the prompt, by layer

    @property
    def prefill_seconds(self) -> float:
        return self.prefill[-1].end - self.prefill[0].begin

    @property
    def token_seconds(self) -> list[float]:
        """From the end of a token's step to the end of the next's."""
        ends = [self.prefill[-1].end, *(record.end for record in self.decode)]
        return np.diff(ends).tolist()


@dataclass(frozen=True)
class Measured:
    """Everything that the results are computed from."""

    container: Container
    config: EngineConfig
    workload: Workload
    plan: Plan
    load_line: str
    load_seconds: float
    experts_per_token: dict[int, int]
    answers: list[Answered]
    together: list[list[StepRecord]]  # steps of decode that held all conversations
    peak_rss_bytes: int
    threads: int
    cpu_path: str
    readers: int
    memory: list[float]  # samples, bytes a second
    disk: list[DiskRate]
    bursts: list[float]
    bursts_together: list[float]

    @property
    def memory_bandwidth(self) -> float:
        return statistics.median(self.memory)

    @property
    def disk_bandwidth(self) -> float | None:
        rates = [rate.bytes_per_second for rate in self.disk]
        return statistics.median(rates) if rates else None

    @property
    def burst_bandwidth(self) -> float | None:
        return statistics.median(self.bursts) if self.bursts else None

    @property
    def burst_bandwidth_together(self) -> float | None:
        return statistics.median(self.bursts_together) if self.bursts_together else None


def prepare_config(
    config: EngineConfig, container: Container, workload: Workload, cache_fraction: float | None
) -> EngineConfig:
    """The settings of the run: context as long as it needs, slots by fraction."""
    changes: dict[str, int | str] = {}
    if config.usage == "auto":
        changes["usage"] = "off"  # what a benchmark asks for is nobody's use
    if config.context is None:
        changes["context"] = workload.tokens * workload.conversations
    if config.prefix_cache == "auto":
        changes["prefix_cache"] = 0
    if cache_fraction is not None:
        most = max((n.num_experts for n in container.expert_layers().values()), default=1)
        changes["cache_experts"] = _slots(config, cache_fraction, most)
    return dataclasses.replace(config, **changes)  # type: ignore[arg-type]


def _slots(config: EngineConfig, fraction: float, experts: int) -> int:
    if config.cache_experts is not None:
        raise ConfigError("--cache-fraction and --cache-experts: give one of them")
    if not 0 < fraction <= 1:
        raise ConfigError(f"--cache-fraction {fraction}: more than 0, at most 1")
    return max(1, round(fraction * experts))


def measure(
    config: EngineConfig,
    workload: Workload,
    *,
    gauge: Gauge,
    cache_fraction: float | None = None,
    record: Path | None = None,
    say: Say = lambda text: None,
) -> Measured:
    """record: where the routing of the last run is written, as a trace.

    Raises what loading and answering raise, and ReadError from measuring the disk.
    """
    path = model_directory(config.model)
    container = open_model(path, config)
    config = prepare_config(config, container, workload, cache_fraction)
    if record is not None:
        config = dataclasses.replace(config, trace=str(record))
    if config.approx_check == "auto":  # each check is a second step beside the one measured
        config = dataclasses.replace(config, approx_check="off")
    kit = RoutingKit(parse_routing(workload.routing), workload.seed)
    clock = StepClock()
    if workload.cold:
        drop_page_cache(_files(container))
    begin = time.perf_counter()
    llm = LLM.from_config(config, make_router=kit.make, clock=clock)
    load_seconds = time.perf_counter() - begin
    with llm:
        say(f"{llm.load_line} (loaded in {load_seconds:.2f} s)")
        clock.watch(llm.experts)
        bench = _Bench(llm, kit, clock, container, workload)
        readers = llm.experts.readers
        rates = Samples(gauge, _extents(container), readers, cpu.num_threads())
        answers = bench.run(say, rates.sample)
        peak = llm.stats().peak_rss_bytes
    return Measured(
        container=container,
        config=config,
        workload=workload,
        plan=llm.plan,
        load_line=llm.load_line,
        load_seconds=load_seconds,
        experts_per_token={r.layer: r.k for r in kit.routers},
        answers=answers,
        together=bench.together,
        peak_rss_bytes=peak,
        threads=cpu.num_threads(),
        cpu_path=cpu.active_path(),
        readers=readers,
        memory=rates.memory,
        disk=rates.disk,
        bursts=rates.bursts,
        bursts_together=rates.bursts_together,
    )


class _Bench:
    def __init__(
        self,
        llm: LLM,
        kit: RoutingKit,
        clock: StepClock,
        container: Container,
        workload: Workload,
    ) -> None:
        self._llm = llm
        self._kit = kit
        self._clock = clock
        self._container = container
        self._workload = workload
        self.together: list[list[StepRecord]] = []
        self._alone = workload.warmup + workload.repeat  # runs
        # Once more than needed: a chunk of as many rows as conversations takes those of theirs.
        more = (workload.repeat + 1) * workload.conversations if workload.conversations > 1 else 0
        kit.prepare(workload.tokens * (self._alone + more))

    def run(
        self, say: Say, sample: Callable[[Bursts | None, Bursts | None], None]
    ) -> list[Answered]:
        """`sample` is called before, between and after the counted runs, with how
        they asked for what was missing: one alone, several at once."""
        warmup, repeat = self._workload.warmup, self._workload.repeat
        for index in range(warmup):
            say(f"warming up {index + 1}/{warmup}")
            self._answer(index)
        answers: list[Answered] = []
        sample(None, None)
        for index in range(repeat):
            if self._workload.cold:
                drop_page_cache(_files(self._container))
                self._llm.experts.drop_all()
            answers.append(self._answer(warmup + index))
            seconds = answers[-1].token_seconds
            say(f"run {index + 1}/{repeat}: {len(seconds) / sum(seconds):.2f} tok/s")
            if self._workload.conversations > 1:
                self.together.append(self._all_at_once(index))
            sample(
                Bursts.of([r for a in answers for r in a.decode]),
                Bursts.of([r for run in self.together for r in run]),
            )
        return answers

    def _answer(self, index: int) -> Answered:
        """Each run has its own prompt and its own rows of the drawn routing."""
        prompt = self._prompt(index)
        self._kit.rewind(index * self._workload.tokens)
        self._clock.restart()
        self._llm.restart_trace()
        ttft = self._llm.generate(prompt, self._params).ttft_seconds
        records = self._clock.take()
        prompt_tokens = self._workload.prompt_tokens
        touched = {r.layer: r.touched(prompt_tokens) for r in self._kit.routers}
        prefill = [r for r in records if r.prefill]
        return Answered(ttft, prefill, [r for r in records if not r.prefill], touched)

    def _all_at_once(self, index: int) -> list[StepRecord]:
        """As many conversations as asked for, each with a prompt and rows of its own."""
        workload, count = self._workload, self._workload.conversations
        first = self._alone + index * count
        runs = range(first, first + count)
        begins = [run * workload.tokens for run in runs]
        self._kit.rewind(begins[0], [begin + workload.prompt_tokens for begin in begins])
        self._clock.restart()
        self._llm.restart_trace()
        self._llm.generate([self._prompt(run) for run in runs], self._params)
        return full_steps(self._clock.take(), count)

    def _prompt(self, run: int) -> list[int]:
        rng = np.random.default_rng((self._workload.seed, run))
        config = self._container.config
        vocab = family_for(config).parse(config).vocab_size
        prompt: list[int] = rng.integers(0, vocab, self._workload.prompt_tokens).tolist()
        return prompt

    @property
    def _params(self) -> SamplingParams:
        tokens = self._workload.new_tokens
        return SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)


def _files(container: Container) -> set[Path]:
    return {e.file for e in _extents(container)} | {t.file for t in container.trunk.values()}


def _extents(container: Container) -> Sequence[Extent]:
    return [
        Extent(span.file, span.offset, span.nbytes)
        for layer in main_layers(container.expert_layers()).values()
        for expert in range(layer.num_experts)
        for span in layer.reads(expert)
    ]
