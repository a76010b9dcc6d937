"""Hyper-connections: against the NumPy twin, the same bits everywhere and beside other rows."""

from typing import Any

import numpy as np
import pytest
from bits import assert_same, everywhere, normal

from colibri.formats.floats import float_matrix
from colibri.kernels.hyper import HyperMix, leave, mean
from colibri.kernels.reference import hyper as ref


class Case:
    def __init__(
        self, streams: int, n: int, rows: int, iterations: int, eps: float = 1e-6, wide: float = 1.0
    ) -> None:
        mixes = (2 + streams) * streams
        weights = (
            normal(1, mixes, streams * n, scale=wide * (streams * n) ** -0.5),
            normal(2, mixes),
            normal(3, 3, scale=2.0),
        )
        switches: dict[str, Any] = {"streams": streams, "iterations": iterations, "eps": eps}
        fn, *rest = weights
        self.mix = HyperMix(float_matrix(fn), *rest, **switches, norm_eps=1e-5)
        self.twin = ref.HyperMix(*weights, **switches, norm_eps=1e-5)
        self.x, self.y = normal(4, rows, streams, n, scale=3.0), normal(5, rows, n)

    def run(self, rows: slice = slice(None)) -> Any:
        """What the half reads, the weights of its output, the streams mixed, then with it."""
        x, y = self.x[rows].copy(), self.y[rows].copy()
        h, out = self.mix.enter(x)
        mixed = x.copy()
        leave(x, out, y)
        return h, out, mixed, x, mean(x)


CASES = [
    Case(4, 64, 37, 20),
    Case(4, 1043, 3, 20),
    Case(3, 5, 16, 1),
    Case(1, 40, 2, 3),
    Case(8, 33, 17, 2, eps=1e-2),
]


@pytest.mark.parametrize("case", CASES)
def test_matches_the_reference(case: Case) -> None:
    h, out, mixed, x, middle = everywhere(case.run)
    want_h, want_out, want_mixed = case.twin.enter(case.x)
    want = want_mixed + want_out[:, :, None] * case.y[:, None]
    pairs = ((h, want_h), (out, want_out), (mixed, want_mixed), (x, want), (middle, want.mean(1)))
    for ours, exact in pairs:
        np.testing.assert_allclose(ours, exact, rtol=2e-5, atol=2e-5)


def test_what_mixes_the_streams_keeps_their_sum() -> None:
    """Sinkhorn ends with columns, and 20 iterations leave the rows near 1 as well."""
    between = Case(4, 64, 37, 20).twin.weights(normal(6, 9, 4, 64))[2]
    np.testing.assert_allclose(between.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(between.sum(2), 1, atol=2e-2)


@pytest.mark.parametrize("case", CASES)
def test_a_rows_bits_do_not_depend_on_its_company(case: Case) -> None:
    whole = case.run()
    for r in {0, len(case.x) // 2, len(case.x) - 1}:
        assert_same(case.run(slice(r, r + 1)), tuple(part[r : r + 1] for part in whole))


def test_extremes_stay_numbers_and_nonfinite_stays_in_its_row() -> None:
    case = Case(4, 64, 37, 20, wide=1e4)
    case.x[2] *= 1e15
    case.x[3] = 0.0
    clean = everywhere(case.run)
    assert all(np.isfinite(part).all() for part in clean)
    case.x[5, 1, 7] = np.nan
    case.x[6, 3, 0] = np.inf
    others = np.delete(np.arange(37), [5, 6])
    for part, before in zip(everywhere(case.run), clean, strict=True):
        assert_same(part[others], before[others])
        assert np.isnan(part[[5, 6]]).any(tuple(range(1, part.ndim))).all()


def test_wrong_shapes_are_refused() -> None:
    fn, base, scale = normal(1, 24, 4 * 8), normal(2, 24), normal(3, 3)
    switches: dict[str, Any] = {"iterations": 2, "norm_eps": 1e-5, "eps": 1e-6}
    for wrong, streams in (
        ((fn, base, scale), 3),
        ((fn[:, :31].copy(), base, scale), 4),
        ((fn, base[:23], scale), 4),
        ((fn, base, scale[:2]), 4),
        ((normal(1, 99, 9 * 8), normal(2, 99), scale), 9),
    ):
        with pytest.raises(ValueError, match=r".+"):
            HyperMix(float_matrix(wrong[0]), *wrong[1:], streams=streams, **switches)
    with pytest.raises(ValueError, match="iteration"):
        HyperMix(float_matrix(fn), base, scale, streams=4, **(switches | {"iterations": 0}))
    mix = HyperMix(float_matrix(fn), base, scale, streams=4, **switches)
    with pytest.raises(ValueError, match="other streams"):
        mix.enter(normal(1, 2, 4, 9))
    x = normal(1, 2, 4, 8)
    with pytest.raises(ValueError, match=r"rows, streams"):
        leave(x, normal(2, 2, 3), normal(3, 2, 8))
    with pytest.raises(ValueError, match="as wide as a stream"):
        leave(x, normal(2, 2, 4), normal(3, 2, 7))
    with pytest.raises(ValueError, match="8 streams"):
        mean(normal(1, 2, 9, 8))
