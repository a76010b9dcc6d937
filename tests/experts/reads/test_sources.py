"""Which drive is read for what."""

import logging
import shutil
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.container.layerexperts import Span
from colibri.container.mirror import image_bytes
from colibri.errors import ConfigError, ContainerError
from colibri.experts.reads.sources import MOST_FAILURES, Drive, Sources, cut, open_drives, split
from mirror_kit import experts_bytes, layers_of, stage

PAGE = 4096
weights = st.lists(st.floats(0, 100), min_size=1, max_size=5)


@given(weights, st.integers(1, 300), st.sampled_from([PAGE, 16 * PAGE, 1 << 30]), st.text())
def test_each_byte_comes_from_one_drive(weights, pages, least, key):
    bounds = split(weights, pages * PAGE, least, key)
    assert len(bounds) == len(weights)
    assert bounds[0][0] == 0
    assert bounds[-1][1] == pages * PAGE
    assert all(a[1] == b[0] for a, b in pairwise(bounds))
    assert all(begin <= end and begin % PAGE == end % PAGE == 0 for begin, end in bounds)
    assert split(weights, pages * PAGE, least, key) == bounds
    if any(weights):
        assert all(b == e for (b, e), weight in zip(bounds, weights, strict=True) if weight == 0)


def test_large_experts_are_cut_by_weight():
    size = 1000 * PAGE
    assert split([2, 1], size, PAGE, "x") == [(0, 667 * PAGE), (667 * PAGE, size)]
    assert split([1, 0, 3], size, PAGE, "x") == [
        (0, size // 4),
        (size // 4,) * 2,
        (size // 4, size),
    ]


def test_a_slow_drive_gets_no_scraps():
    size = 1000 * PAGE
    assert split([100, 100, 1], size, 64 * PAGE, "x") == [
        (0, size // 2),
        (size // 2, size),
        (size,) * 2,
    ]


def test_small_experts_come_whole_by_weight():
    whole = Counter()
    for expert in range(3000):
        bounds = split([2, 1], 4 * PAGE, 8 * PAGE, f"1 {expert}")
        (drive,) = [i for i, (begin, end) in enumerate(bounds) if begin < end]
        whole[drive] += 1
    assert whole[0] == pytest.approx(2000, abs=100)


def test_three_drives_of_two_parts_each_get_their_share():
    nbytes = np.zeros(3)
    for expert in range(3000):
        bounds = split([1, 1, 1], 16 * PAGE, 8 * PAGE, f"1 {expert}")
        parts = [end - begin for begin, end in bounds]
        assert sorted(parts)[0] == 0
        nbytes += parts
    np.testing.assert_allclose(nbytes / nbytes.sum(), 1 / 3, atol=0.02)


@pytest.mark.parametrize("missing", [1, 2, 6, 40])
def test_two_drives_of_two_to_one_read_half_as_fast_again(missing):
    """By the bytes that each has to bring, whatever the experts: nothing is timed."""
    size, rates = 830 * PAGE, (2.0, 1.0)
    rng = np.random.default_rng(missing)
    seconds = 0.0
    for _ in range(50):
        nbytes = np.zeros(2)
        for expert in rng.permutation(64)[:missing]:
            nbytes += [end - begin for begin, end in split(rates, size, 64 * PAGE, f"3 {expert}")]
        seconds += max(nbytes / rates)
    assert 50 * missing * size / rates[0] / seconds > 1.49


@given(st.data())
def test_a_cut_reads_what_the_whole_would(data):
    """Spans with a partly needed last page each, as a checkpoint has."""
    memory = np.random.default_rng(0).integers(0, 256, 1 << 17, np.uint8)
    spans, slot = [], 0
    for _ in range(data.draw(st.integers(1, 3))):
        pages = data.draw(st.integers(1, 6))
        offset = data.draw(st.integers(0, 20)) * PAGE
        needed = pages * PAGE - data.draw(st.integers(0, PAGE - 1))
        spans.append(Span("f", offset, pages * PAGE, slot, needed))
        slot += pages * PAGE
    ends = sorted(data.draw(st.sets(st.integers(1, slot // PAGE - 1))) if slot > PAGE else [])
    bounds = [0, *(end * PAGE for end in ends), slot]
    whole, parts = (np.zeros(slot, np.uint8) for _ in range(2))

    def read(spans, into):
        for s in spans:
            assert s.needed <= s.nbytes
            into[s.slot_offset : s.slot_offset + s.needed] = memory[s.offset : s.offset + s.needed]

    read(spans, whole)
    for begin, end in pairwise(bounds):
        read(cut(spans, begin, end), parts)
    np.testing.assert_array_equal(whole, parts)


@pytest.fixture
def model(model_of, tmp_path):
    return shutil.copytree(model_of("olmoe", "int4"), tmp_path / "model")


def test_drives_of_a_model_and_its_mirrors(model, tmp_path):
    layers = layers_of(model)
    assert open_drives(layers, []) == []
    half = tmp_path / "half"
    staged = stage(model, half, budget=experts_bytes(layers) // 2)
    drives = open_drives(layers, [half])
    assert [d.directory for d in drives] == [model, half]
    sources = Sources(drives, layers)
    found = 0
    for n, layer in layers.items():
        for e in range(layer.num_experts):
            copies = sources.copies(n, e)
            assert copies[0].spans == layer.reads(e)
            found += len(copies) == 2
            assert all(image_bytes(c.spans) == layer.slot_bytes for c in copies)
    assert found == staged.experts


def test_directories_that_are_no_mirror(model, model_of, tmp_path):
    layers = layers_of(model)
    stage(model, tmp_path / "a")
    with pytest.raises(ConfigError, match="a directory of the model itself"):
        open_drives(layers, [model])
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(ConfigError, match="named twice"):
        open_drives(layers, [tmp_path / "a", tmp_path / "link"])
    with pytest.raises(ContainerError, match="no such directory"):
        open_drives(layers, [tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ContainerError, match="holds nothing of this model's experts; `coli mirror"):
        open_drives(layers, [tmp_path / "empty"])
    stage(model_of("olmoe", "int8"), tmp_path / "other")
    with pytest.raises(ContainerError, match=r"holds nothing of this model.*records of another"):
        open_drives(layers, [tmp_path / "other"])


def spoil(path, kind):
    data = bytearray(path.read_bytes())
    if kind == "shorter":
        data = data[:-1]
    elif kind == "header":
        data[20] ^= 1
    else:
        data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["shorter", "header", "end"])
@pytest.mark.parametrize("receipt", [True, False])
def test_a_file_that_does_not_fit_is_left_out(model, tmp_path, caplog, kind, receipt):
    layers = layers_of(model)
    mirror = tmp_path / "mirror"
    stage(model, mirror, "shards")
    if not receipt:
        (mirror / ".coli_mirror.json").unlink()
    bad = min(mirror.glob("experts-*"))
    spoil(bad, kind)
    with caplog.at_level(logging.WARNING, "colibri"):
        drives = open_drives(layers, [mirror])
    assert [r.getMessage() for r in caplog.records if bad.name in r.getMessage()]
    assert len(caplog.records) == 1
    sources = Sources(drives, layers)
    first = min(layers)
    assert len(sources.copies(first, 0)) == 1
    assert len(sources.copies(first + 1, 0)) == 2


def test_hot_records_of_a_changed_model_are_left_out(model, tmp_path):
    stage(model, tmp_path / "mirror")
    shard = max(model.glob("experts-*"))
    spoil(shard, "end")
    with pytest.raises(ContainerError, match="or the model changed since"):
        open_drives(layers_of(model), [tmp_path / "mirror"])


def test_a_drive_that_fails_is_told_once_and_then_left_alone(model, tmp_path, caplog):
    layers = layers_of(model)
    stage(model, tmp_path / "m")
    sources = Sources(open_drives(layers, [tmp_path / "m"]), layers, least=PAGE)
    key = min(layers), 0
    mirror = sources.drives[1]
    assert [part.drive for part in sources.parts(*key)] == list(sources.drives)
    for n in range(1, MOST_FAILURES + 1):
        sources.failed(mirror, OSError("gone"))
        parts = sources.parts(*key)
        assert len(parts) == (2 if n < MOST_FAILURES else 1)
    assert [r.getMessage() for r in caplog.records if "gone" in r.getMessage()] == [
        f"{tmp_path / 'm'}: gone; other copies are read instead, and no more is said of this drive"
    ]
    for _ in range(9):
        sources.failed(sources.drives[0], OSError("gone"))
    # There is no other one left.
    assert [part.drive for part in sources.parts(*key)] == [sources.drives[0]]


def test_the_models_own_drive_is_left_alone_where_a_mirror_has_a_copy(model, tmp_path):
    layers = layers_of(model)
    stage(model, tmp_path / "half", budget=experts_bytes(layers) // 2)
    sources = Sources(open_drives(layers, [tmp_path / "half"]), layers, least=PAGE)
    own, mirror = sources.drives
    for _ in range(MOST_FAILURES):
        sources.failed(own, OSError("gone"))
    keys = [(n, e) for n, layer in layers.items() for e in range(layer.num_experts)]
    copied = {key for key in keys if len(sources.copies(*key)) == 2}
    assert 0 < len(copied) < len(keys)
    for key in keys:
        used = {part.drive for part in sources.parts(*key)}
        assert used == ({mirror} if key in copied else {own})


def test_weight_zero_is_read_only_in_need(model, tmp_path):
    layers = layers_of(model)
    half = tmp_path / "half"
    stage(model, half, budget=experts_bytes(layers) // 2)
    drives = open_drives(layers, [half])
    sources = Sources(drives, layers, least=PAGE)
    drives[0].weight = 0.0
    for n, layer in layers.items():
        for e in range(layer.num_experts):
            used = {part.drive for part in sources.parts(n, e)}
            assert used == ({drives[1]} if len(sources.copies(n, e)) == 2 else {drives[0]})


def test_drives_are_told_apart_by_identity():
    assert Drive("a") != Drive("a")
