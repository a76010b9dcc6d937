"""The list of formats in Python and in the native module is one list."""

from typing import get_args

import numpy as np
import pytest

from colibri import _native
from colibri.formats.base import Format, NonFiniteError, check_finite, decode
from colibri.formats.floats import float_matrix
from colibri.formats.names import Scheme
from colibri.formats.packed import SCHEMES
from colibri.formats.table import FORMATS

SHAPES = [(1, 1, 0), (16, 64, 0), (17, 65, 0), (130, 300, 0), (130, 300, 127)]


def test_codes_are_places_in_the_list():
    assert [format.code for format in FORMATS.values()] == list(range(len(FORMATS)))
    with pytest.raises(ValueError, match="unknown format"):
        _native.matrix(len(FORMATS), 1, 1, [np.zeros(1, np.uint8)], 1.0, 0)


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS.keys())
@pytest.mark.parametrize(("rows", "cols", "first"), SHAPES)
def test_both_want_the_same_bytes(format: Format, rows: int, cols: int, first: int) -> None:
    parts = [np.zeros(n, np.uint8) for n in format.part_bytes(rows, cols, first)]
    _native.matrix(format.code, rows, cols, parts, 1.0, first)
    for at in range(len(parts)):
        short = [part[: len(part) - (n == at)] for n, part in enumerate(parts)]
        with pytest.raises(ValueError, match="wrong size"):
            _native.matrix(format.code, rows, cols, short, 1.0, first)
        with pytest.raises(ValueError, match="contiguous bytes"):
            format.matrix(rows, cols, short, first=first)
    with pytest.raises(ValueError, match="number of arrays"):
        _native.matrix(format.code, rows, cols, [*parts, parts[0]], 1.0, first)


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS.keys())
def test_bits_are_those_of_a_large_matrix(format: Format) -> None:
    assert format.nbytes(4096, 4096) * 8 / 4096**2 == pytest.approx(format.bits, rel=0.01)


def test_what_a_container_may_hold_are_the_names_to_choose_from():
    assert set(SCHEMES) == set(get_args(Scheme))
    assert all(FORMATS[name] is format for name, format in SCHEMES.items())


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16])
def test_a_float_that_is_not_finite_is_named_by_its_place(dtype: type) -> None:
    data = np.ones((20, 70), dtype)
    data.view(np.uint16 if dtype != np.float32 else np.uint32)[13, 66] = {
        np.float32: 0x7F800000,
        np.float16: 0x7E00,
        np.uint16: 0xFF80,
    }[dtype]
    for attempt in (decode, check_finite):
        with pytest.raises(NonFiniteError) as refused:
            attempt(float_matrix(data))
        assert (refused.value.row, refused.value.col) == (13, 66)
