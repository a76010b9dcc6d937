"""Experts kept at three bits: what they compute, whatever the cache, the reads and their order."""

import itertools
import random
import time

import numpy as np
import pytest
from faults import Faulty, io_error
from model import Layer, routing
from test_records import HIDDEN, damage, make_records, run_one

from colibri.container.spec import TAIL_BYTES
from colibri.errors import ConfigError, ContainerError, ReadError
from colibri.experts.cache.narrow import buffer_count
from colibri.experts.streamed import StreamedExperts
from colibri.formats.base import decode
from colibri.formats.packed import narrow_matrix, pack_matrix
from colibri.formats.table import FORMATS
from colibri.kernels.moe import ExpertLayout

SCHEMES = ("int8-gs64", "int4-gs64")


def values(w, scheme):
    m = narrow_matrix(pack_matrix(w, FORMATS[scheme]))
    return decode(m).astype(np.float64)


@pytest.mark.parametrize("size", [1.0, 1e-9])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_expert_computes_what_its_three_bits_say(tmp_path, scheme, size):
    records, weights = make_records(tmp_path / "r", scheme, size)
    for expert, matrices in enumerate(weights):
        gate, up, down = (values(w, scheme) for w in matrices)
        y = run_one(records, expert, cache_bits=3, verify=True)[0]
        g = gate @ np.ones(HIDDEN)
        wanted = down @ (g / (1 + np.exp(-g)) * (up @ np.ones(HIDDEN)))
        assert np.linalg.norm(y - wanted) < 1e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_bits_do_not_depend_on_capacity_walk_or_reads(tmp_path, scheme):
    records, _ = make_records(tmp_path / "r", scheme)
    rng = np.random.default_rng(1)
    _, ids, weights = routing(rng, 5, 3, records)
    x = rng.standard_normal((5, HIDDEN), np.float32)
    delays = random.Random(3)

    def late(n):
        time.sleep(delays.choice([0, 0.0005]))

    results = []
    for capacity, buffer, read in itertools.product((1, 2, 4), (0, 1 << 20), (None, Faulty(late))):
        experts = StreamedExperts(
            {5: records},
            slots_per_layer=capacity,
            cache_bits=3,
            pair_buffer_bytes=buffer,
            readers=1,
            read=read,
        )
        results += [experts.run(5, x, ids, weights)]
        experts.hint(5, [1, 0, 3, 2], read=4)
        results += [experts.run(5, x, ids, weights)]
        experts.close()
    for y in results[1:]:
        np.testing.assert_array_equal(y.view(np.uint32), results[0].view(np.uint32))


def test_more_experts_on_their_way_than_buffers(tmp_path):
    """Guesses take half of the buffers, and those that have none yet are demanded or withdrawn."""
    records, _ = make_records(tmp_path / "r", "int4-gs64")
    many = Many(records)
    experts = StreamedExperts(
        {5: many}, slots_per_layer=40, cache_bits=3, readers=1, read=Faulty(lambda n: None)
    )
    try:
        experts.hint(5, list(range(30)), read=30)
        ids = np.arange(5, 35, dtype=np.int32)[None]
        weights = np.ones((1, 30), np.float32)
        y = experts.run(5, np.ones((1, HIDDEN), np.float32), ids, weights)
        assert experts.resident(5) >= set(range(5, 35))
        again = experts.run(5, np.ones((1, HIDDEN), np.float32), ids, weights)
        np.testing.assert_array_equal(y, again)
        experts.hint(5, list(range(35, 40)), read=5)
        experts.drop_all()
        assert not experts.resident(5)
    finally:
        experts.close()


class Many:
    """Experts of one record file, over and over."""

    def __init__(self, records):
        self._records = records
        self.layer, self.layout = records.layer, records.layout
        self.slot_bytes, self.num_experts, self.record = records.slot_bytes, 40, False
        self.parts = records.parts

    def reads(self, expert):
        return self._records.reads(expert % self._records.num_experts)


def test_slots_take_what_three_bits_take(tmp_path):
    records, _ = make_records(tmp_path / "r", "int8-gs64")
    stored = StreamedExperts({5: records}, slots_per_layer=3)
    narrow = StreamedExperts({5: records}, slots_per_layer=3, cache_bits=3, readers=2)
    slot = narrow.cached_layers()[5].slot_bytes
    assert slot < 0.5 * stored.cached_layers()[5].slot_bytes
    assert narrow.nbytes == 3 * slot + buffer_count(2, 3) * records.slot_bytes
    narrow.resize(1)
    assert narrow.slots == 1
    narrow.close(), stored.close()


def test_damage_and_failing_disks_are_reported_and_survived(tmp_path):
    records, _ = make_records(tmp_path / "r", "int4-gs64")
    experts = StreamedExperts(
        {5: records},
        slots_per_layer=2,
        cache_bits=3,
        readers=1,
        read=Faulty(lambda n: io_error(n) if n <= 4 else None),
    )
    one = np.ones((1, HIDDEN), np.float32), np.array([[2]], np.int32), np.ones((1, 1), np.float32)
    with pytest.raises(ReadError, match="expert 2 of layer 5 cannot be read"):
        experts.run(5, *one)
    assert experts.run(5, *one).any()
    experts.close()
    damage(records, records.slot_bytes - TAIL_BYTES, b"X")
    with pytest.raises(ContainerError, match="no expert record here"):
        run_one(records, 2, cache_bits=3)


def test_only_packed_experts_are_narrowed(tmp_path):
    layer = Layer(1, tmp_path / "f", layout=ExpertLayout(FORMATS["bf16"], 32, 40))
    with pytest.raises(ConfigError, match=r"experts of this model are bf16.*coli convert"):
        StreamedExperts({1: layer}, slots_per_layer=2, cache_bits=3)
