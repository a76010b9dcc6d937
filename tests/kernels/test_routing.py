import numpy as np
import pytest
from bits import assert_same, everywhere, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.kernels import routing
from colibri.kernels.reference import ops as ref


def coarse(seed: int, *shape: int):
    """Logits with many exact ties."""
    return np.round(normal(seed, *shape) * 2) / 2


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 70), st.data())
def test_softmax_rule_matches_the_reference(rows, experts, data):
    k = data.draw(st.integers(1, min(experts, 12)))
    renormalize = data.draw(st.booleans())
    logits = coarse(experts * 7 + k, rows, experts)
    ids, weights = everywhere(lambda: routing.softmax_topk(logits, k, renormalize))
    # Ties of the logits, not of the reference's rounding: equal logits have equal bits of softmax.
    want = np.argsort(-logits, axis=-1, kind="stable")[:, :k]
    np.testing.assert_array_equal(ids, want)
    np.testing.assert_allclose(weights, ref.softmax_topk(logits, k, renormalize)[1], rtol=3e-6)
    if renormalize:
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from([(1, 1), (4, 2), (8, 3), (5, 5), (3, 1)]),
    st.integers(1, 17),
    st.data(),
)
def test_sigmoid_rule_matches_the_reference(rows, groups, size, data):
    n_group, topk_group = groups
    k = data.draw(st.integers(1, min(topk_group * size, 9)))
    renormalize, scale = data.draw(st.booleans()), data.draw(st.sampled_from([1.0, 2.5]))
    logits, bias = normal(size * 11 + k, rows, n_group * size), normal(k, n_group * size, scale=0.3)
    args = (logits, bias, k, n_group, topk_group, renormalize, scale)
    ids, weights = everywhere(lambda: routing.sigmoid_topk(*args))
    want = ref.sigmoid_topk(*args)
    np.testing.assert_array_equal(ids, want[0])
    np.testing.assert_allclose(weights, want[1], rtol=3e-6)


def test_ties_go_to_the_lower_expert_and_the_lower_group():
    logits = np.zeros((2, 12), np.float32)
    bias = np.zeros(12, np.float32)
    ids, weights = everywhere(lambda: routing.sigmoid_topk(logits, bias, 3, 4, 2, True, 1.0))
    assert ids.tolist() == [[0, 1, 2]] * 2
    np.testing.assert_allclose(weights, 1 / 3, rtol=1e-6)
    bias[6:] = 0.25
    assert routing.sigmoid_topk(logits, bias, 3, 4, 1, True, 1.0)[0][0].tolist() == [6, 7, 8]
    assert routing.softmax_topk(logits, 4, False)[0][0].tolist() == [0, 1, 2, 3]


def test_the_bias_chooses_but_does_not_weigh():
    logits = np.array([[2.0, 1.0, -1.0]], np.float32)
    bias = np.array([0, 0, 5], np.float32)
    ids, weights = routing.sigmoid_topk(logits, bias, 2, 1, 1, False, 1.0)
    assert ids.tolist() == [[2, 0]]
    np.testing.assert_allclose(weights, [[0.26894142, 0.880797]], rtol=1e-6)


def test_groups_win_by_their_two_best_and_even_negative_choices_count():
    logits = np.full((1, 8), -3, np.float32)
    logits[0, 0] = 9  # the single best expert, in a group that loses
    logits[0, 4:6] = 0.5
    bias = np.full(8, -2, np.float32)
    ids, _ = everywhere(lambda: routing.sigmoid_topk(logits, bias, 3, 2, 1, True, 1.0))
    assert ids.tolist() == [[4, 5, 6]]


def test_underflowing_probabilities_still_give_k_different_experts():
    logits = np.array([[0, -200, 300, -300]], np.float32)
    ids, weights = everywhere(lambda: routing.softmax_topk(logits, 3, True))
    assert ids.tolist() == [[2, 0, 1]]
    assert weights.tolist() == [[1, 0, 0]]


def test_rows_have_the_bits_of_one_row():
    logits, bias = normal(3, 2000, 64), normal(4, 64)
    for f in (
        lambda x: routing.softmax_topk(x, 8, True),
        lambda x: routing.sigmoid_topk(x, bias, 8, 4, 2, True, 2.5),
    ):
        whole = everywhere(lambda f=f: f(logits))
        rows = [f(logits[i : i + 1]) for i in range(len(logits))]
        assert_same(whole, tuple(np.concatenate(column) for column in zip(*rows, strict=True)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_non_finite_logit_is_refused_by_row(bad):
    logits, bias = normal(5, 900, 64), np.zeros(64, np.float32)
    logits[[333, 700], 63] = bad
    with pytest.raises(ValueError, match="row 333: a router logit is not finite"):
        everywhere(lambda: routing.softmax_topk(logits, 2, True))
    with pytest.raises(ValueError, match="row 333: a router logit is not finite"):
        everywhere(lambda: routing.sigmoid_topk(logits, bias, 2, 1, 1, True, 1.0))
    bias[9] = bad
    with pytest.raises(ValueError, match="bias of expert 9"):
        routing.sigmoid_topk(logits, bias, 2, 1, 1, True, 1.0)


@pytest.mark.parametrize(
    ("k", "n_group", "topk_group", "message"),
    [
        (0, 1, 1, "k must be"),
        (13, 1, 1, "k must be"),
        (4, 4, 1, "k must be"),
        (1, 5, 1, "divide into"),
        (1, 0, 0, "divide into"),
        (1, 4, 5, "topk_group"),
        (1, 4, 0, "topk_group"),
    ],
)
def test_impossible_choices_are_refused(k, n_group, topk_group, message):
    logits, bias = normal(6, 2, 12), np.zeros(12, np.float32)
    with pytest.raises(ValueError, match=message):
        routing.sigmoid_topk(logits, bias, k, n_group, topk_group, True, 1.0)
