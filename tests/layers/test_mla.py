"""Latent attention as a layer, of both families: with rope and a key a position, without rope and a
key a pool."""

import numpy as np
import pytest
from bits import assert_same, everywhere, normal
from latent_kit import HIDDEN, KINDS, NORM, Kind, Twin, advance, layer, new_state, step_of

from colibri.kernels.attention import selected
from colibri.kvcache.sequence import SequenceState
from colibri.layers.mla import LatentAttention

ROWS, TOPK = 41, 9
X = normal(1, ROWS, HIDDEN)
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def whole(one: LatentAttention) -> np.ndarray:
    return advance(one, new_state(one, ROWS), X)


@kinds
@pytest.mark.parametrize("topk", [TOPK, ROWS])
def test_it_is_what_the_sheet_says(kind: Kind, topk: int) -> None:
    want, seen = Twin(kind, topk)(X)
    one = layer(kind, topk)
    step = step_of([one], [(new_state(one, ROWS), ROWS)])
    got = one(X.copy(), None, NORM, step)
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
    if topk == ROWS:
        assert step.selection == [None]
        return
    chosen = step.selection[0]
    assert chosen is not None
    assert [[int(p) for p in row if p >= 0] for row in chosen] == seen
    assert max(map(len, seen)) == selected(topk, kind.pool or 1) < ROWS


@kinds
def test_what_it_leaves_out_matters(kind: Kind) -> None:
    some, everything = whole(layer(kind, TOPK)), whole(layer(kind, ROWS))
    first = selected(TOPK, kind.pool or 1)
    assert_same(some[:first], everything[:first])
    assert (np.abs(some - everything)[first:].max(1) > 1e-3).mean() > 0.9


@kinds
def test_keeping_everything_is_dense_attention_to_the_bit(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once by a bound that is never reached, once by lists of all positions."""
    dense = layer(kind, TOPK, indexed=False)
    expected = advance(dense, SequenceState([dense.new_cache(ROWS)]), X)
    assert_same(whole(layer(kind, ROWS)), expected)
    pool = kind.pool or 1
    listed = np.full((ROWS, ROWS + pool), -1, np.int32)
    for t in range(ROWS):
        listed[t, : t + 1] = np.arange(t + 1)
    monkeypatch.setattr("colibri.layers.indexer.index_scores_select", lambda *args: listed)
    assert_same(everywhere(lambda: whole(layer(kind, TOPK))), expected)


@kinds
def test_no_cut_thread_or_path_changes_a_bit(kind: Kind) -> None:
    one = layer(kind, TOPK)
    expected = everywhere(lambda: whole(one))
    for chunk in (1, 3, 7, 16):
        state = new_state(one, ROWS)
        parts = [advance(one, state, X[t : t + chunk]) for t in range(0, ROWS, chunk)]
        assert_same(np.concatenate(parts), expected)


@kinds
def test_a_step_taken_back_leaves_no_trace(kind: Kind) -> None:
    one, noise = layer(kind, TOPK), normal(7, 6, HIDDEN)
    expected, state, rows = whole(one), new_state(one, ROWS + 6), []
    for t in range(ROWS):
        checkpoint = state.checkpoint()
        advance(one, state, noise[: 1 + t % 6])
        state.restore(checkpoint)
        rows.append(advance(one, state, X[t : t + 1]))
    assert_same(np.concatenate(rows), expected)


@kinds
def test_trimming_rejected_rows_leaves_no_trace(kind: Kind) -> None:
    one, noise = layer(kind, TOPK), normal(8, 3, HIDDEN)
    expected, state, rows = whole(one), new_state(one, ROWS + 3), []
    for t in range(ROWS):
        advance(one, state, noise)
        state.layers[0].truncate(t)
        rows.append(advance(one, state, X[t : t + 1]))
    assert_same(np.concatenate(rows), expected)


@kinds
def test_company_changes_no_bit(kind: Kind) -> None:
    """A short text that keeps all it sees beside a long one that does not."""
    one = layer(kind, TOPK)
    long, short = new_state(one, ROWS), new_state(one, ROWS)
    before = np.concatenate([advance(one, long, X[:30]), advance(one, short, X[:2])])
    step = step_of([one], [(long, ROWS - 30), (short, 3)])
    both = one(np.concatenate([X[30:], X[2:5]]), None, NORM, step)
    expected = whole(one)
    assert step.selection[0] is not None
    assert step.selection[1] is None
    assert_same(np.concatenate([before[:30], both[:-3]]), expected)
    assert_same(np.concatenate([before[30:], both[-3:]]), expected[:5])


@kinds
def test_a_layer_without_an_indexer_uses_the_last_selection(kind: Kind) -> None:
    full, shared = layer(kind, TOPK), layer(kind, TOPK, indexed=False, number=1)
    state = SequenceState([full.new_cache(ROWS), shared.new_cache(ROWS)])
    step = step_of([full, shared], [(state, ROWS)])
    first = full(X.copy(), None, NORM, step)
    assert_same(shared(X.copy(), None, NORM, step), first)  # the same weights, the same choice


@kinds
def test_equal_keys_go_to_the_earlier(kind: Kind) -> None:
    pool = kind.pool or 1
    one, x = layer(kind, TOPK), np.repeat(X[:1], ROWS, 0)
    step = step_of([one], [(new_state(one, ROWS), ROWS)])
    if kind.rope_dim:
        step.rope = (np.ones_like(step.rope[0]), np.zeros_like(step.rope[1]))  # all at one place
    one(x, None, NORM, step)
    (chosen,) = step.selection
    assert chosen is not None
    kept = TOPK // pool * pool
    for t in range(kept, ROWS):
        tail = list(range((t + 1) // pool * pool, t + 1))
        assert [int(p) for p in chosen[t] if p >= 0] == [*range(kept), *tail]


@kinds
def test_state_is_latents_and_index_keys_never_heads(kind: Kind) -> None:
    one = layer(kind, TOPK)
    state = new_state(one, ROWS)
    advance(one, state, X)
    sizes = [part[0].size for part in state.layers[0].state]
    assert one.indexer is not None
    assert sizes[:2] == [one.latent_dim + one.rope_dim, one.indexer.dim]
    assert state.nbytes == sum(part.nbytes for part in state.layers[0].state)
