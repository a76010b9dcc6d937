"""One way of running a model, measured: in a process of its own, so that each begins alike, and one
that fails, hangs or is killed takes nobody with it."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol

from colibri.config import EngineConfig
from colibri.errors import ColibriError
from colibri.lab.prompts import prompt_ids
from colibri.llm import LLM, model_directory
from colibri.sampling import SamplingParams

PROMPTS = 3
_FORWARD_TOKENS = 16  # of the first prompt, whose logits are compared bit by bit


@dataclass(frozen=True)
class Work:
    """tokens: of each answer; repeats: passes over the prompts that count, after one that does
    not."""

    tokens: int = 32
    repeats: int = 3


@dataclass(frozen=True)
class Sample:
    tps: list[float]  # decoded tokens a second, one a pass
    ttft_seconds: float  # median
    hit_rate: float | None
    digest: str  # of all tokens and of some logits
    budget_bytes: int
    peak_bytes: int  # the most that was planned, or that it had
    slots: int  # of the layer that has the fewest
    resident: bool  # every expert fits

    @property
    def speed(self) -> float:
        return statistics.median(self.tps)

    @property
    def spread(self) -> float:
        """Of the passes: (largest - smallest) / median."""
        return (max(self.tps) - min(self.tps)) / self.speed


class TrialFailed(Exception):
    """A way of running that cannot be used; the message says why."""


class OutOfTime(TrialFailed):
    """It was ended because the time was over."""


class Runner(Protocol):
    def run(self, config: EngineConfig, seconds: float) -> Sample:
        """At most so many seconds. Raises TrialFailed, OutOfTime."""
        ...


class ProcessRunner:
    """The real one."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def run(self, config: EngineConfig, seconds: float) -> Sample:
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(theirs, config, self._work), daemon=True)
        process.start()
        theirs.close()
        try:
            return _received(ours, process, seconds)
        finally:
            process.kill()  # it has nothing left to do, or does not come to an end
            process.join()
            ours.close()


def _received(pipe: Connection, process: BaseProcess, seconds: float) -> Sample:
    if not pipe.poll(max(seconds, 0.0)):
        raise OutOfTime("it took longer than there was time for")
    try:
        found = pipe.recv()
    except EOFError:
        process.join()
        killed = process.exitcode == -signal.SIGKILL
        reason = "the system killed it: memory ran out" if killed else "it broke off"
        raise TrialFailed(f"{reason} (exit code {process.exitcode})") from None
    if isinstance(found, str):
        raise TrialFailed(found)
    assert isinstance(found, Sample)
    return found


def _child(pipe: Connection, config: EngineConfig, work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent takes it and ends this one
    with contextlib.suppress(BrokenPipeError):
        try:
            pipe.send(measure(config, work))
        except (ColibriError, MemoryError) as error:
            pipe.send(str(error) or "memory ran out")


def measure(config: EngineConfig, work: Work) -> Sample:
    """Load the model, answer the prompts once unmeasured and then so many times."""
    path = model_directory(config.model)
    with LLM.from_config(config) as llm:
        vocabulary = llm.forward([0]).shape[1]
        prompts = prompt_ids(path, vocabulary, PROMPTS)
        passes = [_pass(llm, prompts, work.tokens) for _ in range(1 + work.repeats)]
        digest = hashlib.sha256()
        digest.update(repr([p.tokens for p in passes]).encode())
        digest.update(llm.forward(prompts[0][:_FORWARD_TOKENS]).tobytes())
        stats, plan = llm.stats(), llm.plan
        asked = stats.hits + stats.misses
        return Sample(
            tps=[p.tps for p in passes[1:]],
            ttft_seconds=statistics.median(p.ttft_seconds for p in passes[1:]),
            hit_rate=stats.hits / asked if asked else None,
            digest=digest.hexdigest(),
            budget_bytes=plan.budget_bytes,
            peak_bytes=max(plan.peak_bytes, stats.peak_rss_bytes),
            slots=min(plan.slots.values(), default=0),
            resident=all(plan.slots[n] >= of for n, of in plan.experts_per_layer.items()),
        )


@dataclass(frozen=True)
class _Pass:
    tps: float
    ttft_seconds: float
    tokens: list[list[int]]


def _pass(llm: LLM, prompts: Sequence[Sequence[int]], tokens: int) -> _Pass:
    params = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
    before = llm.stats()
    answers = [llm.generate(list(ids), params) for ids in prompts]
    after = llm.stats()
    seconds = after.decode_seconds - before.decode_seconds
    return _Pass(
        tps=(after.decode_tokens - before.decode_tokens) / seconds,
        ttft_seconds=statistics.fmean(a.ttft_seconds for a in answers),
        tokens=[list(a.token_ids) for a in answers],
    )
