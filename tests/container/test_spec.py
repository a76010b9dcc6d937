import numpy as np
import pytest
from converted_model import make_record
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import expert_tensors

from colibri.container import spec
from colibri.errors import ContainerError
from colibri.formats.packed import INT4
from colibri.formats.table import FORMATS

RECORD = make_record(expert_tensors(), 1, 2)


def test_sizes() -> None:
    # 2048 x 768 at int4: 96 blocks of 17408 bytes, 128 blocks of 6528, the tail
    assert spec.down_offset(INT4, 2048, 768) == 96 * 32 * 544
    assert spec.record_bytes(INT4, 2048, 768) == 2510848
    assert spec.record_bytes(INT4, 40, 24) % 4096 == 0


def test_a_body_that_fills_its_pages_gets_another_for_the_tail() -> None:
    for hidden in range(64, 2048, 64):
        for scheme in ("int4-gs64", "int8-gs64"):
            body = spec.body_bytes(FORMATS[scheme], hidden, 64)
            assert 64 <= spec.record_bytes(FORMATS[scheme], hidden, 64) - body < 64 + 4096


def test_the_tail_is_at_the_end_and_has_this_layout() -> None:
    tail = RECORD[-64:].tobytes()
    assert tail[:8] == b"COLIREC1"
    assert int.from_bytes(tail[8:12], "little") == 1
    assert int.from_bytes(tail[12:16], "little") == 2
    assert np.frombuffer(tail[16:28], np.float32).tolist() == [1.0, 1.0, 1.0]
    assert tail[28:56] == bytes(28)


def test_round_trip() -> None:
    record = RECORD.copy()
    tail = spec.RecordTail(1, 2, (0.5, 2.0, 2.0**-30))
    spec.pack_tail(record, tail)
    assert spec.verify_record(record, 1, 2, "f") == tail
    assert spec.parse_tail(record[-64:], 1, 2, "f") == tail


@settings(max_examples=60, deadline=None)
@given(st.integers(0, RECORD.size - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(at: int, change: int) -> None:
    record = RECORD.copy()
    record[at] ^= change
    with pytest.raises(ContainerError, match=r"file.x: layers\.1\.experts\.2: "):
        spec.verify_record(record, 1, 2, "file.x")


def test_another_experts_record_is_refused() -> None:
    with pytest.raises(ContainerError, match=r"that of layers\.1\.experts\.2"):
        spec.verify_record(RECORD, 1, 0, "f")
    with pytest.raises(ContainerError, match="no expert record"):
        spec.parse_tail(np.zeros(64, np.uint8), 0, 0, "f")


@pytest.mark.parametrize("m", [0.0, -1.0, 3.0, np.inf, np.nan])
def test_multipliers_are_powers_of_two(m: float) -> None:
    record = RECORD.copy()
    spec.pack_tail(record, spec.RecordTail(1, 2, (1.0, 1.0, m)))
    with pytest.raises(ContainerError, match="powers of two"):
        spec.verify_record(record, 1, 2, "f")


def test_names() -> None:
    assert spec.parse_record_name(spec.record_name(3, 17)) == (3, 17)
    for name in ("layers.03.experts.1", "layers.3.experts.1.weight", "layers.٣.experts.1", "x"):
        assert spec.parse_record_name(name) is None
