"""A cache of pooled keys: however it came to its rows, it is the cache of those rows."""

from typing import Any

import numpy as np
import pytest

from colibri.kernels.reference import ops as ref
from colibri.kvcache.pooled import PooledLatentCache, kept_bytes, kept_rows

CAPACITY, LATENT, DIM = 60, 6, 20


def drawn(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


# Three texts, so that rows that were taken back are followed by others.
ROWS = [
    (drawn(t, CAPACITY, 1, LATENT), drawn(t + 9, CAPACITY, DIM), drawn(t + 20, CAPACITY, DIM))
    for t in range(3)
]


class Subject:
    """A cache, and beside it the text that each of its positions is of."""

    def __init__(self, pool: int) -> None:
        self.bias = drawn(50, pool, DIM)
        self.cache = PooledLatentCache(CAPACITY, LATENT, 0, self.bias)
        self.texts: list[int] = []

    def append(self, text: int, tokens: int) -> None:
        at = slice(len(self.texts), len(self.texts) + tokens)
        self.cache.append(*(part[at] for part in ROWS[text]))
        self.texts += [text] * tokens

    def check(self) -> None:
        fresh = PooledLatentCache(CAPACITY, LATENT, 0, self.bias)
        rows = [
            np.array([ROWS[t][part][i] for i, t in enumerate(self.texts)], np.float32)
            for part in range(3)
        ]
        if self.texts:
            fresh.append(*rows)
        assert self.cache.length == len(self.texts)
        for got, want in zip(self.cache.state, fresh.state, strict=True):
            np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("pool", [1, 3, 4, 16])
@pytest.mark.parametrize("seed", range(4))
def test_appended_cut_and_restored_in_any_order(pool: int, seed: int) -> None:
    rng, subject = np.random.default_rng(seed), Subject(pool)
    saved = [(subject.cache.checkpoint(), list(subject.texts))]
    for _ in range(60):
        length = len(subject.texts)
        kind = rng.integers(5)
        if kind < 2 and length < CAPACITY:
            tokens = int(rng.integers(1, min(CAPACITY - length, 2 * pool + 2) + 1))
            subject.append(int(rng.integers(3)), tokens)
        elif kind == 2:
            saved.append((subject.cache.checkpoint(), list(subject.texts)))
        elif kind == 3:
            # What is later than it is restored to is no longer valid.
            checkpoint, texts = saved[int(rng.integers(len(saved)))]
            subject.cache.restore(checkpoint)
            subject.texts = list(texts)
            saved = [one for one in saved if texts[: len(one[1])] == one[1]]
        else:
            subject.cache.truncate(length // pool * pool)
            del subject.texts[length // pool * pool :]
            saved = [one for one in saved if len(one[1]) <= len(subject.texts)]
        subject.check()
    assert subject.cache.touched > 2 * pool


@pytest.mark.parametrize("pool", [1, 3, 4])
def test_up_to_a_pool_can_be_cut_off_anywhere_and_whole_pools_always(pool: int) -> None:
    for length in range(1, 4 * pool):
        for cut in range(length + 1):
            subject = Subject(pool)
            for tokens in (length // 2, length - length // 2):
                subject.append(0, tokens)
            if length - cut <= pool or cut % pool == 0:
                subject.cache.truncate(cut)
                del subject.texts[cut:]
                subject.append(1, pool)
                subject.check()
            elif cut // pool * pool < length - kept_rows(pool):
                with pytest.raises(IndexError, match="restore a checkpoint"):
                    subject.cache.truncate(cut)
                subject.check()


def test_keys_are_the_references() -> None:
    subject = Subject(4)
    subject.append(0, 11)
    rows = np.stack([part[:8] for part in ROWS[0][1:]], 1)
    want = ref.pool_keys(rows, subject.bias)
    np.testing.assert_allclose(subject.cache.index_keys, want, rtol=1e-5, atol=1e-6)
    latents, keys, opened = subject.cache.state
    assert (latents.shape, keys.shape, opened.shape) == ((11, 1, LATENT), (2, DIM), (3, 2, DIM))
    assert subject.cache.nbytes == 4 * (11 * LATENT + 2 * DIM + 3 * 2 * DIM)


def test_what_is_kept_beside_pools_does_not_grow_with_the_text() -> None:
    subject = Subject(4)
    for _ in range(2):
        subject.append(0, 30)
    recent = subject.cache.checkpoint().recent
    assert recent.base is None  # not a view that keeps a whole chunk alive
    assert 2 * recent.nbytes == kept_bytes(4, DIM)


def test_a_full_cache_refuses_and_stays_as_it_was() -> None:
    subject = Subject(4)
    subject.append(0, CAPACITY - 1)
    with pytest.raises(IndexError, match="cannot hold 61"):
        subject.cache.append(*(part[:2] for part in ROWS[0]))
    subject.check()
    with pytest.raises(IndexError, match="truncate"):
        subject.cache.truncate(CAPACITY)
