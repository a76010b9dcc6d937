"""What a runtime counts."""

from dataclasses import dataclass

from colibri.experts.base import DriveStats


@dataclass(frozen=True)
class Stats:
    """Counters since the model was loaded."""

    prefill_tokens: int
    prefill_seconds: float
    decode_tokens: int
    decode_seconds: float
    hits: int
    misses: int
    bytes_read: int
    read_seconds: float
    wait_seconds: float
    prefetch_reads: int
    prefetch_useful: int
    prefetch_wasted_bytes: int
    prefetch_expired: int
    lookahead_missing: int
    lookahead_right: int
    guard_shrinks: int  # times that the expert cache gave memory back to keep the budget
    guard_bytes: int  # what it gave
    loaded_rss_bytes: int  # resident once the model was loaded
    rss_bytes: int
    peak_rss_bytes: int
    drives: tuple[DriveStats, ...] = ()  # where experts are read from several
    # Of approximate routing: the checked tokens' sums, and what `cache-aware` did.
    approx_tokens: int = 0  # decoded tokens that were checked
    approx_agreed: int = 0  # of them, those whose likeliest next token is the exact one
    approx_kl: float = 0.0  # KL(exact || approximate), in nats, added up
    approx_seconds: float = 0.0  # that checking took; in no other figure
    approx_bytes_read: int = 0  # for checking; in bytes_read too
    experts_chosen: int = 0  # by `cache-aware`
    experts_swapped: int = 0  # among them: chosen because they were at hand

    @property
    def approx_agreement(self) -> float | None:
        return self.approx_agreed / self.approx_tokens if self.approx_tokens else None

    @property
    def approx_mean_kl(self) -> float | None:
        return self.approx_kl / self.approx_tokens if self.approx_tokens else None
