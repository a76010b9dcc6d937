"""Resumable training on a CPU: single-threaded workers update one shared model without locks.

On two cores this (Hogwild) was faster than one process with two threads. A run is not reproducible
bit by bit. Everything that a later call needs is in run/last.pt; a call with the same directory
goes on from it.
"""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from scripts.train_demo.checkpoint import Checkpoint, Progress, load, save
from scripts.train_demo.data import TokenData
from scripts.train_demo.losses import agreement, validation
from scripts.train_demo.model import Model
from scripts.train_demo.phases import Phase, Settings, optimizer, phases
from scripts.train_demo.shape import Shape

_LOG_STEPS, _SAVE_SECONDS = 25, 300.0


@dataclass(frozen=True)
class Shared:
    """What the workers of one phase have in common."""

    model: Model
    phase: Phase
    settings: Settings
    tokens: Any  # synchronised 64-bit counter
    stop: Any  # event
    directory: Path  # with tokens/ and run/


class Worker:
    """One process's view: its own batches and optimiser, everyone's weights."""

    def __init__(self, shared: Shared, rank: int, state: dict[str, Any] | None) -> None:
        # One thread each, and batches that a resumed run has not seen before.
        torch.set_num_threads(1)
        start = int(shared.tokens.value)
        seed = [shared.settings.seed, rank, start, len(shared.phase.name)]
        self.shared = shared
        self.data = TokenData(shared.directory / "tokens", "train", seed)
        self.optimizer = optimizer(shared.phase, shared.model)
        self.steps = 0
        if state is not None:
            self.optimizer.load_state_dict(state)
            self.steps = shared.phase.warmup

    @property
    def done(self) -> float:
        return int(self.shared.tokens.value) / max(1, self.shared.phase.total)

    def step(self) -> float:
        shared, phase, done = self.shared, self.shared.phase, min(1.0, self.done)
        for group in self.optimizer.param_groups:
            group["lr"] = phase.rate(done, self.steps)
        size, context = phase.window(shared.settings, done)
        self.optimizer.zero_grad(set_to_none=True)
        loss = phase.loss(shared.model, self.data.batch(size, context))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(phase.parameters(shared.model), 1.0)
        self.optimizer.step()
        for router in phase.routers(shared.model):
            router.balance(phase.balance_rate(done))
        self.steps += 1
        with shared.tokens.get_lock():
            shared.tokens.value += size * context
        return float(loss.detach())


def _follow(shared: Shared, rank: int, state: dict[str, Any] | None) -> None:
    """A worker process beside the first one; Ctrl-C reaches it through the stop event."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker, first = Worker(shared, rank, state), mp.parent_process()
    while worker.done < 1 and not shared.stop.is_set() and first is not None and first.is_alive():
        worker.step()


class Recorder:
    """The first worker's log lines, validation losses and checkpoints."""

    def __init__(self, shared: Shared, worker: Worker, progress: Progress) -> None:
        self.shared, self.worker, self.progress = shared, worker, progress
        self.run = shared.directory / "run"
        self.validation = TokenData(shared.directory / "tokens", "val", [123])
        self._loss: float | None = None
        self._logged, self._saved = time.monotonic(), time.monotonic()
        self._tokens = int(shared.tokens.value)

    def log(self, **values: Any) -> None:
        line = json.dumps({"phase": self.shared.phase.name, **values})
        with (self.run / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line, flush=True)

    def after(self, loss: float) -> None:
        self._loss = loss if self._loss is None else 0.97 * self._loss + 0.03 * loss
        now, tokens = time.monotonic(), int(self.shared.tokens.value)
        if self.worker.steps % _LOG_STEPS == 0:
            speed = (tokens - self._tokens) / (now - self._logged)
            self.log(tokens=tokens, loss=round(self._loss, 4), tokens_per_second=round(speed))
            self._logged, self._tokens = now, tokens
        if now - self._saved > _SAVE_SECONDS:
            self.save()
            self._saved = time.monotonic()

    def save(self) -> None:
        self.progress.tokens[self.shared.phase.name] = int(self.shared.tokens.value)
        state = self.worker.optimizer.state_dict()
        save(self.run / "last.pt", Checkpoint(self.shared.model, self.progress, state))

    def measure(self) -> None:
        context = self.shared.settings.context
        losses = validation(self.shared.model, self.validation, context)
        if self.shared.phase.name == "mtp":
            share = agreement(self.shared.model, self.validation, context)
            self.log(validation=losses, draft_agreement=share)
        else:
            self.log(validation=losses)


def _lead(shared: Shared, state: dict[str, Any] | None, progress: Progress, end: float) -> None:
    """The first worker: trains, records, and stops the others at the deadline."""
    worker = Worker(shared, 0, state)
    recorder = Recorder(shared, worker, progress)
    while worker.done < 1 and not shared.stop.is_set():
        recorder.after(worker.step())
        if time.monotonic() > end:
            shared.stop.set()
    recorder.save()
    if worker.done >= 1:
        recorder.measure()


def _run_phase(shared: Shared, checkpoint: Checkpoint, end: float) -> None:
    context = mp.get_context("spawn")
    state = checkpoint.optimizer
    others = [
        context.Process(target=_follow, args=(shared, rank, state), daemon=True)
        for rank in range(1, shared.settings.workers)
    ]
    for process in others:
        process.start()
    _lead(shared, state, checkpoint.progress, end)
    for process in others:
        process.join()
    if any(process.exitcode for process in others):
        raise SystemExit("a worker failed; its traceback is above, run/last.pt is intact")


def _start(directory: Path, shape: Shape) -> Checkpoint:
    last = directory / "run" / "last.pt"
    if last.exists():
        return load(last)
    return Checkpoint(Model(shape), Progress(), None)


def _prepare(phase: Phase, checkpoint: Checkpoint) -> None:
    """Before a phase: what an earlier one left does not fit any more."""
    model, progress = checkpoint.model, checkpoint.progress
    if progress.phase != phase.name:
        checkpoint.optimizer = None
    progress.phase = phase.name
    if phase.name == "trunk":
        progress.tokens["mtp"] = 0  # a trunk that moves on needs its draft trained again
    elif progress.tokens["mtp"] == 0:
        # The draft block starts as a copy of the trunk's last layer.
        model.mtp.block.load_state_dict(model.layers[-1].state_dict())


def _stop_on_signals(stop: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())


def train(directory: Path, shape: Shape, settings: Settings, minutes: float | None) -> bool:
    """Train, or go on training; False when `minutes` or a signal ended it before the goal.

    A finished run goes on where `settings` ask for more tokens.
    """
    (directory / "run").mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    checkpoint = _start(directory, shape)
    checkpoint.model.share_memory()
    context = mp.get_context("spawn")
    stop = context.Event()
    _stop_on_signals(stop)
    end = time.monotonic() + minutes * 60 if minutes is not None else float("inf")
    for phase in phases(settings):
        if checkpoint.progress.tokens[phase.name] >= phase.total:
            continue
        _prepare(phase, checkpoint)
        tokens = context.Value("q", checkpoint.progress.tokens[phase.name])
        shared = Shared(checkpoint.model, phase, settings, tokens, stop, directory)
        _run_phase(shared, checkpoint, end)
        if int(tokens.value) < phase.total:
            return False
        checkpoint.optimizer = None
    return True
