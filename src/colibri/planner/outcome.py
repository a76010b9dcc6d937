"""The plan held against what happened."""

from dataclasses import dataclass
from typing import Literal

from colibri.planner.forecast import Forecast
from colibri.planner.plan import WORKING_BYTES, Plan

WORTH_SAYING = 0.05
# By unit: which way is worse, and how far a measurement may lie there by chance: as a share of the
# plan, and at least (Python and the system's allocator are no more exact than 16 MB).
_CHANCE = {"bytes": (1, 0.05, 16e6), "share": (-1, 0.05, 0.0), "tok/s": (-1, 0.10, 0.0)}


@dataclass(frozen=True)
class Run:
    """What happened; the counters are those of decode."""

    loaded_rss_bytes: int  # resident once the model was loaded
    peak_rss_bytes: int
    slots_bytes: int  # of slots that hold an expert at the end
    prompt_tokens: int
    new_tokens: int
    hits: int
    misses: int
    bytes_read: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """`planned` and `measured` are None where nothing is known or nothing of the kind happened."""

    name: str
    unit: Literal["bytes", "share", "tok/s"]
    planned: float | None
    measured: float | None
    note: str = ""

    @property
    def deviation(self) -> float | None:
        """(measured - planned) / planned."""
        if self.planned is None or self.measured is None:
            return None
        if self.planned == self.measured:
            return 0.0
        return (self.measured - self.planned) / self.planned if self.planned else None

    @property
    def differs(self) -> bool:
        """By more than a twentieth."""
        both = self.planned is not None and self.measured is not None
        deviation = self.deviation
        return both and (deviation is None or abs(deviation) > WORTH_SAYING)

    @property
    def worse(self) -> bool:
        """Than planned, by more than chance: more bytes, fewer hits, less speed."""
        if self.planned is None or self.measured is None:
            return False
        way, share, least = _CHANCE[self.unit]
        return way * (self.measured - self.planned) > max(share * self.planned, least)


def outcome(plan: Plan, expected: Forecast, run: Run) -> list[Row]:
    """Memory, hits, bytes and speed. Of the peak, what the run had no use for is not expected:
    slots still empty, context not reached, a prompt shorter than a chunk."""
    used = _used_bytes(plan, run)
    spare = (
        f"of what this run used; the planned peak, {plan.peak_bytes / 1e6:,.1f} MB, includes "
        f"{max(0, plan.peak_bytes - used) / 1e6:,.1f} MB not used yet"
    )
    asked = run.hits + run.misses
    loaded = _loaded_bytes(plan)
    speed = run.new_tokens / run.seconds if run.new_tokens and run.seconds else None
    return [
        Row("loaded", "bytes", loaded, run.loaded_rss_bytes, "process, trunk and embedding"),
        Row("peak", "bytes", used, run.peak_rss_bytes, spare),
        Row(
            "hit rate",
            "share",
            expected.hit_rate,
            run.hits / asked if asked else None,
            "of the answer's tokens, without the prompt's",
        ),
        Row(
            "disk per token",
            "bytes",
            expected.disk_bytes_per_token,
            run.bytes_read / run.new_tokens if run.new_tokens else None,
            "of the answer",
        ),
        Row("speed", "tok/s", expected.tokens_per_second, speed, "of the answer"),
    ]


def _loaded_bytes(plan: Plan) -> int:
    """Of this process: the plan's is as large as any that runs a model."""
    return plan.rss_bytes + plan.tokenizer.loaded + plan.trunk_bytes + plan.embedding_bytes


def _used_bytes(plan: Plan, run: Run) -> int:
    positions = min(run.prompt_tokens + run.new_tokens, plan.context)
    rows = min(run.prompt_tokens, plan.prefill_chunk)
    fixed = _loaded_bytes(plan) + WORKING_BYTES
    state = plan.state_bytes * positions // plan.context
    activations = plan.activation_bytes * rows // plan.prefill_chunk
    return fixed + state + activations + min(run.slots_bytes, plan.arena_bytes)
