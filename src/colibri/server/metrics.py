"""/metrics, in Prometheus' text format: what was served, and what the engine does now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from colibri.llm import LLM

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_PER_TOKEN = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)

# Name, help, of Stats.
_COUNTERS = (
    ("prefill_tokens", "Prompt tokens computed."),
    ("decode_tokens", "Tokens decoded."),
    ("prefill_seconds", "Seconds of prefill."),
    ("decode_seconds", "Seconds of decode."),
    ("hits", "Experts found in memory."),
    ("misses", "Experts read from disk when they were asked for."),
    ("bytes_read", "Bytes of experts read."),
    ("wait_seconds", "Seconds waited for reads."),
    ("prefetch_reads", "Experts read ahead."),
    ("prefetch_useful", "Experts read ahead and then used."),
    ("guard_shrinks", "Times the expert cache gave memory back."),
)
_GAUGES = (
    ("rss_bytes", "Resident memory of the process."),
    ("peak_rss_bytes", "The most of it so far."),
)


class Metrics:
    """Of one server; a registry of its own."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "colibri_http_requests",
            "HTTP requests, by endpoint and status.",
            ("endpoint", "status"),
            registry=registry,
        )
        self.answers = Counter(
            "colibri_answers", "Answers, by how they ended.", ("reason",), registry=registry
        )
        self.prompt_tokens = Counter(
            "colibri_prompt_tokens", "Tokens of prompts, cached ones included.", registry=registry
        )
        self.cached_tokens = Counter(
            "colibri_cached_prompt_tokens", "Of these, taken from the cache.", registry=registry
        )
        self.generation_tokens = Counter(
            "colibri_generation_tokens", "Tokens of answers.", registry=registry
        )
        self.first_token = Histogram(
            "colibri_time_to_first_token_seconds",
            "From a request to the first token of an answer.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.per_token = Histogram(
            "colibri_time_per_output_token_seconds",
            "Between tokens of an answer, on average.",
            buckets=_PER_TOKEN,
            registry=registry,
        )
        self.whole = Histogram(
            "colibri_answer_seconds",
            "From a request to the end of an answer.",
            buckets=_SECONDS,
            registry=registry,
        )

    def watch(self, llm: LLM) -> None:
        """From now on with the engine's own."""
        self._registry.register(_EngineCollector(llm))

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _EngineCollector(Collector):
    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def describe(self) -> list[Metric]:
        """Nothing: whoever registers need not ask the engine."""
        return []

    def collect(self) -> Iterator[Metric]:
        stats, status = self._llm.stats(), self._llm.status()
        for name, text in _COUNTERS:
            yield CounterMetricFamily(f"colibri_{name}", text, value=float(getattr(stats, name)))
        for name, text in _GAUGES:
            yield GaugeMetricFamily(f"colibri_{name}", text, value=getattr(stats, name))
        plan = self._llm.plan
        now = {
            "requests_running": (len(status.running), "Answers being computed."),
            "requests_waiting": (status.waiting, "Requests in the queue."),
            "kept_tokens": (status.kept_tokens, "Tokens kept for prompts that begin alike."),
            "context_tokens": (plan.context, "Tokens that all that runs may have together."),
            "budget_bytes": (plan.budget_bytes, "What --ram allows."),
        }
        for name, (value, text) in now.items():
            yield GaugeMetricFamily(f"colibri_{name}", text, value=value)
