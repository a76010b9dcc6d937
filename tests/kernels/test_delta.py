"""The delta rule: against the NumPy twin, and the same bits however rows are cut into calls."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from bits import assert_same, everywhere, normal

from colibri.kernels.delta import DeltaRule, DeltaShape, recurrent
from colibri.kernels.reference import delta as ref

GDN = DeltaShape(heads=4, key_heads=2, key_dim=16, value_dim=16)
ODD = DeltaShape(heads=3, key_heads=3, key_dim=24, value_dim=40, taps=3)
WIDE = DeltaShape(heads=2, key_heads=1, key_dim=20, value_dim=150)
EPS = 1e-6


@dataclass
class Case:
    shape: DeltaShape
    per_channel: bool
    lower: float | None
    silu: bool
    rows: int = 13

    def __post_init__(self) -> None:
        s, n = self.shape, self.rows
        gates = s.heads * s.key_dim if self.per_channel else s.heads
        a_log = normal(1, s.heads, scale=0.5)
        weights = (
            normal(2, s.taps, s.channels, scale=0.7),
            np.repeat(a_log, gates // s.heads),
            normal(3, gates),
            normal(4, s.value_dim),
        )
        switches = {"eps": EPS, "silu": self.silu, "lower": self.lower}
        self.rule = DeltaRule(s, *weights, **switches)
        self.twin = ref.DeltaRule(s, *weights, **switches)
        self.qkv = normal(5, n, s.channels)
        self.gate, self.beta = normal(6, n, gates, scale=3.0), normal(7, n, s.heads, scale=2.0)
        self.z = normal(8, n, s.values, scale=2.0)

    def state(self) -> Any:
        s = self.shape
        window, matrix = np.empty(s.window_shape, np.float32), np.empty(s.matrix_shape, np.float32)
        window[:], matrix[:] = np.nan, np.nan  # what is not written is not read
        return recurrent(window, matrix), window, matrix

    def call(self, rows: slice, before: Any, after: Any) -> Any:
        arrays = [np.ascontiguousarray(a[rows]) for a in (self.gate, self.beta, self.z)]
        qkv = np.ascontiguousarray(self.qkv[rows])
        return self.rule([qkv], *arrays, [len(qkv)], [before], [after])

    def whole(self) -> Any:
        after, window, matrix = self.state()
        return self.call(slice(None), None, after), window, matrix


CASES = [
    Case(GDN, False, None, True),
    Case(ODD, True, -5.0, False),
    Case(ODD, True, None, False),
    Case(WIDE, False, None, False),
    Case(WIDE, True, -5.0, True, rows=1),
    Case(replace(GDN, taps=1), True, -2.0, True),
]


def plain(matrix: Any) -> Any:
    """[heads, key_dim, value_dim] of the kernel's blocks of 32 columns."""
    heads, keys, values = matrix.shape
    cuts = [keys * column for column in range(32, values, 32)]
    blocks = np.split(matrix.reshape(heads, -1), cuts, 1)
    return np.concatenate([block.reshape(heads, keys, -1) for block in blocks], 2)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_the_reference(case: Case) -> None:
    got = everywhere(case.whole)
    s = case.shape
    want = case.twin(
        case.qkv, case.gate, case.beta, case.z, np.zeros(s.window_shape), np.zeros(s.matrix_shape)
    )
    for ours, exact in zip((*got[:2], plain(got[2])), want, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("case", CASES[:4], ids=str)
@pytest.mark.parametrize("aside", [True, False], ids=["aside", "in place"])
@pytest.mark.parametrize("cuts", [range(1, 13), [1, 5], [12]], ids=["one by one", "cut", "last"])
def test_chunks_have_the_bits_of_the_whole(case: Case, aside: bool, cuts: Any) -> None:
    whole = case.whole()

    def chunked() -> Any:
        outs, before = [], None
        here, *arrays = case.state()
        for begin, end in zip([0, *cuts], [*cuts, case.rows], strict=True):
            if aside:
                here, *arrays = case.state()
            outs.append(case.call(slice(begin, end), before, here))
            before = here
        return np.concatenate(outs), *arrays

    assert_same(everywhere(chunked), whole)


def test_sequences_side_by_side_and_inputs_apart() -> None:
    """Three sequences in one call, one of them going on; q, k and v in three arrays (as in KDA)."""
    case = CASES[1]
    s, (out, window, matrix) = case.shape, CASES[1].whole()
    keys = s.key_heads * s.key_dim
    middle = case.state()
    case.call(slice(0, 4), None, middle[0])

    def run() -> Any:
        order = [*range(2), *range(4, 13), *range(5)]
        gate, beta, z = (np.ascontiguousarray(a[order]) for a in (case.gate, case.beta, case.z))
        parts = np.split(case.qkv[order], [keys, 2 * keys], 1)
        after = [case.state() for _ in range(3)]
        got = case.rule(
            [np.ascontiguousarray(part) for part in parts],
            gate,
            beta,
            z,
            [2, 11, 16],
            [None, middle[0], None],
            [one[0] for one in after],
        )
        return got, *after[1][1:]

    got, own_window, own_matrix = everywhere(run)
    assert_same(got, np.concatenate([out[:2], out[4:], out[:5]]))
    assert_same((own_window, own_matrix), (window, matrix))


def test_extremes_stay_numbers_and_nonfinite_is_not_hidden() -> None:
    case = Case(GDN, False, None, True)
    case.gate[:] = np.resize([1e30, -1e30, 80.0, -80.0, 0.0], case.gate.shape)
    case.qkv[3] = 0.0
    assert np.isfinite(everywhere(case.whole)[0]).all()
    case.qkv[5, 0] = np.inf
    out = everywhere(case.whole)[0]
    assert np.isfinite(out[:5]).all()
    assert np.isnan(out[5]).any()


def test_softplus_and_decay_are_right_over_the_whole_range() -> None:
    """One step with an empty state leaves k (x) beta v; the next, with k = v = 0, decays it."""
    case = Case(replace(GDN, taps=1), False, None, True, rows=2)
    for x in np.linspace(-30, 30, 61):
        case.gate[:] = x
        case.qkv[1] = 0.0
        first = case.state()
        case.call(slice(0, 1), None, first[0])
        after = case.state()
        case.call(slice(1, 2), first[0], after[0])
        gain = np.exp(normal(1, 4, scale=0.5).astype(np.float64))
        bias = normal(3, 4).astype(np.float64)
        g = -gain * np.logaddexp(0, np.float64(np.float32(x)) + bias)
        exact = first[2].astype(np.float64) * np.exp(g)[:, None, None]
        error = 3e-7 * (1 - g)[:, None, None] * np.abs(exact)  # an ulp of g is |g| ulps of exp(g)
        assert (np.abs(after[2] - exact) <= error + 1e-37).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"gate": (13, 3)},
        {"beta": (12, 4)},
        {"z": (13, 63)},
        {"qkv": (13, 127)},
        {"stops": [12]},
        {"stops": [0, 13]},
    ],
)
def test_wrong_shapes_are_refused(wrong: dict[str, Any]) -> None:
    case = Case(GDN, False, None, True)
    after = case.state()[0]
    arrays = {
        k: normal(1, *wrong[k]) if k in wrong else getattr(case, k)
        for k in ("qkv", "gate", "beta", "z")
    }
    stops = wrong.get("stops", [13])
    with pytest.raises(ValueError, match=r".+"):
        case.rule(
            [arrays["qkv"]],
            arrays["gate"],
            arrays["beta"],
            arrays["z"],
            stops,
            [None] * len(stops),
            [after] * len(stops),
        )
    other = replace(GDN, key_dim=17)
    state = recurrent(
        np.zeros(other.window_shape, np.float32), np.zeros(other.matrix_shape, np.float32)
    )
    with pytest.raises(ValueError, match="another shape"):
        case.call(slice(None), None, state)
