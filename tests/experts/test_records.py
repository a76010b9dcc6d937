"""Packed records: multipliers from the tail, and what the tail says is believed only if right."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from model import routing

from colibri.container.layerexperts import Span
from colibri.container.spec import (
    TAIL_BYTES,
    RecordTail,
    body_bytes,
    down_offset,
    pack_tail,
    record_bytes,
)
from colibri.errors import ContainerError
from colibri.experts.streamed import StreamedExperts
from colibri.formats.packed import pack_expert
from colibri.formats.table import FORMATS
from colibri.kernels.moe import ExpertLayout

HIDDEN, INNER = 96, 80


@dataclass(frozen=True)
class Records:
    file: Path
    layout: ExpertLayout
    layer: int = 5
    num_experts: int = 4
    record: bool = True

    @property
    def slot_bytes(self):
        return record_bytes(self.layout.format, HIDDEN, INNER)

    def reads(self, expert):
        n = self.slot_bytes
        return (Span(self.file, expert * n, n, 0, n),)

    def parts(self, expert):
        return 0, 0, down_offset(self.layout.format, HIDDEN, INNER)


def make_records(file, scheme, size=1.0):
    """A layer whose weights of the order `size` need multipliers if tiny, and its weights."""
    records = Records(file, ExpertLayout(FORMATS[scheme], HIDDEN, INNER))
    rng = np.random.default_rng(7)
    data, weights = [], []
    for expert in range(records.num_experts):
        shapes = ((INNER, HIDDEN), (INNER, HIDDEN), (HIDDEN, INNER))
        gate, up, down = ((rng.standard_normal(s) * 0.3).astype(np.float32) for s in shapes)
        down *= np.float32(size)
        record = np.zeros(records.slot_bytes, np.uint8)
        body, multipliers = pack_expert(gate, up, down, FORMATS[scheme])
        record[: body_bytes(FORMATS[scheme], HIDDEN, INNER)] = body
        pack_tail(record, RecordTail(5, expert, multipliers))
        data.append(record.tobytes())
        weights.append((gate, up, down))
    file.write_bytes(b"".join(data))
    return records, weights


def run_one(records, expert, **options):
    experts = StreamedExperts({5: records}, slots_per_layer=2, **options)
    try:
        x = np.ones((1, HIDDEN), np.float32)
        return experts.run(5, x, np.array([[expert]], np.int32), np.ones((1, 1), np.float32))
    finally:
        experts.close()


@pytest.mark.parametrize("size", [1.0, 1e-9])
@pytest.mark.parametrize(("scheme", "error"), [("int8-gs64", 0.02), ("int4-gs64", 0.25)])
def test_records_compute_what_their_weights_say(tmp_path, scheme, error, size):
    records, weights = make_records(tmp_path / "r", scheme, size)
    for expert, (gate, up, down) in enumerate(weights):
        y = run_one(records, expert, verify=True)[0]
        x = np.ones(HIDDEN)
        g = gate @ x
        wanted = down @ (g / (1 + np.exp(-g)) * (up @ x))
        assert np.linalg.norm(y - wanted) < error * np.linalg.norm(wanted)


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("scheme", ["int8-gs64", "int4-gs64"])
def test_bits_do_not_depend_on_capacity_or_walk(tmp_path, scheme, planes):
    records, _ = make_records(tmp_path / "r", scheme)
    rng = np.random.default_rng(1)
    _, ids, weights = routing(rng, 5, 3, records)
    x = rng.standard_normal((5, HIDDEN), np.float32)
    results = []
    for capacity in (1, 2, 4):
        for buffer in (0, 1 << 20):
            experts = StreamedExperts(
                {5: records}, slots_per_layer=capacity, planes=planes, pair_buffer_bytes=buffer
            )
            results += [experts.run(5, x, ids, weights), experts.run(5, x, ids, weights)]
            experts.close()
    for y in results[1:]:
        np.testing.assert_array_equal(y.view(np.uint32), results[0].view(np.uint32))


def damage(records, offset, value):
    with records.file.open("r+b") as file:
        file.seek(2 * records.slot_bytes + offset)
        file.write(value)


@pytest.mark.parametrize(
    ("from_end", "value", "message"),
    [
        (TAIL_BYTES, b"X", "no expert record here"),
        (TAIL_BYTES - 8, b"\x04", r"that of layers\.4\.experts\.2"),
        (TAIL_BYTES - 12, b"\x03", r"that of layers\.5\.experts\.3"),
        (TAIL_BYTES - 16, bytes(4), "no powers of two"),
    ],
)
def test_another_record_in_this_place_is_refused(tmp_path, from_end, value, message):
    records, _ = make_records(tmp_path / "r", "int4-gs64")
    damage(records, records.slot_bytes - from_end, value)
    with pytest.raises(ContainerError, match=message):
        run_one(records, 2)
    run_one(records, 1)


def test_a_flipped_bit_is_found_when_asked_for(tmp_path):
    records, _ = make_records(tmp_path / "r", "int8-gs64")
    damage(records, 1234, b"\x00\x01\x02")
    run_one(records, 2)
    where = rf"{records.file} at byte {2 * records.slot_bytes}: .*: expert 2 of layer 5 is damaged"
    with pytest.raises(ContainerError, match=where):
        run_one(records, 2, verify=True)
