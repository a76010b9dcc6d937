"""What latent attention keeps where its indexer's keys are pooled: one key for each run of a few
positions, and what the run that is not complete needs to become one."""

from dataclasses import dataclass

import numpy as np

from colibri.kernels.attention import pool_keys
from colibri.kvcache.base import F32
from colibri.kvcache.latent import LatentCache
from colibri.kvcache.memory import untouched


def kept_rows(pool: int) -> int:
    """Positions whose keys and gates are kept: an open pool, and one complete before it."""
    return 2 * pool - 1


def kept_bytes(pool: int, dim: int) -> int:
    """Of their keys and gates, and once more while a step may be taken back."""
    return 2 * 4 * 2 * kept_rows(pool) * dim


@dataclass(frozen=True, eq=False)
class PooledCheckpoint:
    length: int
    recent: F32


class PooledLatentCache(LatentCache):
    """A pool's key is made when its last position comes, of bias [pool, dim] and what was kept.

    truncate() takes back up to a pool's positions at any place, and any number up to the end of a
    pool; anything else takes a checkpoint.
    """

    def __init__(self, capacity: int, latent: int, rope: int, bias: F32) -> None:
        super().__init__(capacity, latent, rope)
        self._bias = bias
        self._pool, dim = bias.shape
        self._pooled = untouched((capacity // self._pool, dim))
        self._recent = np.empty((0, 2, dim), np.float32)  # replaced, never written to

    @property
    def index_keys(self) -> F32:  # [length // pool, index_dim]
        return self._pooled[: self.length // self._pool]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.state)

    def append(self, *rows: F32) -> None:
        """Latents [tokens, 1, latent + rope], the indexer's keys and gates [tokens, dim]."""
        latents, keys, gates = rows
        first, complete = self.length - len(self._recent), self.length // self._pool
        super().append(latents)
        known = np.concatenate([self._recent, np.stack([keys, gates], 1)])  # positions from `first`
        new = self.index_keys[complete:]
        begin = complete * self._pool - first
        if len(new):
            pool_keys(known[begin : begin + len(new) * self._pool], self._bias, new)
        self._recent = known[-kept_rows(self._pool) :].copy()

    def truncate(self, length: int) -> None:
        first, opened = self.length - len(self._recent), length // self._pool * self._pool
        if opened < min(first, length):
            raise IndexError(
                f"pooled keys of {self.length} positions cannot be cut to {length}: "
                "restore a checkpoint"
            )
        super().truncate(length)
        self._recent = self._recent[: max(0, length - first)]

    def checkpoint(self) -> PooledCheckpoint:
        return PooledCheckpoint(self.length, self._recent)

    def restore(self, checkpoint: PooledCheckpoint) -> None:
        super().truncate(checkpoint.length)
        self._recent = checkpoint.recent

    @property
    def state(self) -> tuple[F32, ...]:
        """Latents, keys of the complete pools, keys and gates [2, dim] of the open one."""
        opened = self._recent[len(self._recent) - self.length % self._pool :]
        return (*super().state, self.index_keys, opened)
