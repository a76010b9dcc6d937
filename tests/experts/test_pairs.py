import numpy as np
import pytest

from colibri.experts.pairs import pair_up, select

EXPERTS = 30


def batch(rows, k):
    rng = np.random.default_rng(rows)
    ids = np.stack([rng.permutation(EXPERTS)[:k] for _ in range(rows)]).astype(np.int32)
    return ids, rng.random((rows, k), np.float32)


@pytest.mark.parametrize(("rows", "k"), [(1, 1), (1, 8), (5, 3), (400, 6)])
def test_pairs_are_all_there_by_expert_then_by_row(rows, k):
    ids, weights = batch(rows, k)
    pairs = pair_up(ids, weights, EXPERTS)
    expert = np.repeat(pairs.experts, np.diff(pairs.start))
    found = list(zip(expert.tolist(), pairs.row.tolist(), pairs.weight.tolist(), strict=True))
    wanted = [(ids[r, j], r, weights[r, j]) for r in range(rows) for j in range(k)]
    assert found == sorted(wanted)
    for r in range(rows):
        assert expert[pairs.by_row[r]].tolist() == sorted(ids[r])
        assert (pairs.row[pairs.by_row[r]] == r).all()
    np.testing.assert_array_equal(pairs.row_weight, pairs.weight[pairs.by_row])


def test_select_names_the_pairs_of_some_experts():
    pairs = pair_up(*batch(9, 4), EXPERTS)
    members = np.array([5, 0, 2])
    start, number = select(pairs, members)
    for position, member in enumerate(members):
        wanted = range(pairs.start[member], pairs.start[member + 1])
        assert number[start[position] : start[position + 1]].tolist() == list(wanted)
    assert start[-1] == number.size


@pytest.mark.parametrize("row", [0, 77, 399])
def test_an_expert_twice_in_any_row_is_refused(row):
    ids, weights = batch(400, 6)
    ids[row, 5] = ids[row, 2]
    with pytest.raises(ValueError, match="twice in one row"):
        pair_up(ids, weights, EXPERTS)
