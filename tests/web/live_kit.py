"""Servers whose engine is listened to, and one that has more experts than any model here."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx2
import numpy as np
from server_kit import Running, Scripted, serving

from colibri import LLM
from colibri.config import EngineConfig
from colibri.experts.base import ExpertStats
from colibri.experts.usage.counts import Counts
from colibri.experts.usage.recency import Recency
from colibri.server.watch.profile import SampledClock

if TYPE_CHECKING:
    from playwright.sync_api import Page

LAYERS, EXPERTS, CHOSEN = 78, 256, 8


@contextlib.contextmanager
def live_server(**more: Any) -> Iterator[Running]:
    clock = SampledClock()
    settings: dict[str, Any] = {"ram": "2GB", "context": 1024, "cache_experts": 12}
    config = EngineConfig(**settings | {"usage": "off"} | more)
    with LLM.from_config(config, clock=clock) as llm, serving(llm, page=True) as running:
        running.service.clock = clock
        clock.watch(llm.experts)
        yield running


def ask(running: Running, prompt: str = "A cat and a dog", tokens: int = 20) -> None:
    body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    httpx2.post(f"{running.url}/v1/completions", json=body, timeout=60).raise_for_status()


class ManyExperts:
    """As an executor, of 78 layers of 256 experts, as far as watching asks it."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.there = {n: rng.random(EXPERTS) < 0.4 for n in range(LAYERS)}
        self.note: Callable[[int, Any], None] | None = None

    def at_hand(self, layer: int) -> Any:
        return self.there[layer]

    def held(self, layer: int) -> frozenset[int]:
        return frozenset(np.flatnonzero(self.there[layer])[:4].tolist())

    def stats(self) -> ExpertStats:
        return ExpertStats()

    def listen(self, note: Callable[[int, Any], None] | None) -> None:
        self.note = note


@contextlib.contextmanager
def many_experts(llm: LLM, steps_per_second: float = 20.0) -> Iterator[Running]:
    """A server that says what a model of 19,968 experts would have it say, at this speed."""
    experts, model = ManyExperts(), Scripted(llm, lambda _request: [])
    per_layer = dict.fromkeys(range(LAYERS), EXPERTS)
    rng = np.random.default_rng(6)
    heat = {n: rng.exponential(40, EXPERTS) for n in per_layer}
    counts = Counts(1000, dict.fromkeys(per_layer, 8000), heat)
    model.experts = experts  # type: ignore[attr-defined]
    model.plan = SimpleNamespace(  # type: ignore[attr-defined]
        experts_per_layer=per_layer,
        slots=dict.fromkeys(per_layer, 103),
        slot_bytes=dict.fromkeys(per_layer, 20_000_000),
        experts_per_token=CHOSEN,
        context=llm.plan.context,
        budget_bytes=llm.plan.budget_bytes,
    )
    model.usage = SimpleNamespace(peek=lambda: (counts, Recency(per_layer)))  # type: ignore[attr-defined]
    done = threading.Event()
    with serving(model, page=True) as running:
        firings = running.service.firings

        def run() -> None:
            while not done.wait(1 / steps_per_second):
                firings.begin(prefill=False, rows=1, turn=1)
                for layer in range(LAYERS) if experts.note else ():
                    chosen = rng.choice(EXPERTS, CHOSEN, replace=False).astype(np.int32)
                    experts.note(layer, chosen[None])  # type: ignore[misc]
                firings.end()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield running
        finally:
            done.set()
            thread.join()


def frames(page: Page, seconds: float) -> tuple[int, float]:
    """Frames that the page made in that time, and the longest between two, in seconds."""
    found = page.evaluate(
        """seconds => new Promise(resolve => {
            const times = [];
            const begin = performance.now();
            const tick = now => {
                times.push(now);
                if (performance.now() - begin < seconds * 1000) requestAnimationFrame(tick);
                else resolve(times);
            };
            requestAnimationFrame(tick);
        })""",
        seconds,
    )
    gaps = np.diff(np.array(found))
    return len(gaps), float(gaps.max()) / 1000


def settle(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.05)
