"""What a runtime counts."""

from dataclasses import dataclass

from colibri.experts.base import DriveStats


@dataclass(frozen=True)
class Stats:
    """Counters since the model was loaded. Expert counts are once a layer's call, whatever the
    number of rows that want the expert."""

    prefill_tokens: int
    """Prompt tokens that were computed."""
    prefill_seconds: float
    """Seconds of the steps that computed prompt tokens."""
    decode_tokens: int
    """Tokens of answers that were made in steps without prompt tokens."""
    decode_seconds: float
    """Seconds of those steps; decode_tokens / decode_seconds is the speed of decoding."""
    hits: int
    """Experts that were in memory when they were asked for."""
    misses: int
    """Experts that had to be read first."""
    bytes_read: int
    """Bytes of experts that were read from disk."""
    read_seconds: float
    """Seconds that the reader threads spent on reads, summed over the threads."""
    wait_seconds: float
    """Seconds in which the arithmetic waited for a read."""
    prefetch_reads: int
    """Experts that were read because lookahead guessed them."""
    prefetch_useful: int
    """Those of them that were asked for afterwards."""
    prefetch_wasted_bytes: int
    """Bytes of those that were evicted without having been asked for."""
    prefetch_expired: int
    """Guesses whose layer came before their read had begun."""
    lookahead_missing: int
    """Experts that were asked for and missing while lookahead was guessing."""
    lookahead_right: int
    """Those of them that had been guessed."""
    guard_shrinks: int
    """How often the expert cache gave memory back to keep the budget."""
    guard_bytes: int
    """How many bytes it gave back."""
    loaded_rss_bytes: int
    """Resident memory of the process once the model was loaded."""
    rss_bytes: int
    """Resident memory now."""
    peak_rss_bytes: int
    """The most that was ever resident."""
    drives: tuple[DriveStats, ...] = ()
    """Directory, bytes and failures of each drive, if experts are read from several."""
    approx_tokens: int = 0
    """Decoded tokens for which the cost of approximate routing was checked."""
    approx_agreed: int = 0
    """Those of them whose likeliest next token is the exact model's."""
    approx_kl: float = 0.0
    """KL(exact || approximate) of the checked tokens, in nats, summed."""
    approx_seconds: float = 0.0
    """Seconds that checking took. No other figure contains them."""
    approx_bytes_read: int = 0
    """Bytes that checking read. bytes_read contains them."""
    experts_chosen: int = 0
    """Experts that the router `cache-aware` chose."""
    experts_swapped: int = 0
    """Those of them that it chose because they were in memory."""

    @property
    def approx_agreement(self) -> float | None:
        """The share of checked tokens that agree; None if none was checked."""
        return self.approx_agreed / self.approx_tokens if self.approx_tokens else None

    @property
    def approx_mean_kl(self) -> float | None:
        """The mean KL of the checked tokens, in nats; None if none was checked."""
        return self.approx_kl / self.approx_tokens if self.approx_tokens else None
