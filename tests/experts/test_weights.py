"""What measuring decides, with rates made up; and that the real measuring reads all drives."""

import shutil

import pytest

from colibri.experts.reads.sources import Drive, open_drives
from colibri.experts.streamed import StreamedExperts
from colibri.experts.weights import measure_weights
from mirror_kit import layers_of, stage


def drives(mirrors, own=1):
    found = [Drive(f"own{i}") for i in range(own)]
    return found + [Drive(f"m{i}", object()) for i in range(mirrors)]


def at_once(drives, rates):
    """Drives that read side by side: all are done when the slowest share is."""

    def rate():
        total = sum(drive.weight for drive in drives)
        times = [d.weight / total / r for d, r in zip(drives, rates, strict=True) if d.weight]
        return 1 / max(times)

    return rate


@pytest.mark.parametrize("rates", [[2.0, 1.0], [1.0, 2.0], [2.0, 1.0, 0.5], [1.0, 1.0, 1.0]])
def test_each_is_read_by_its_rate(rates):
    found = drives(len(rates) - 1)
    measure_weights(found, at_once(found, rates))
    assert [drive.weight for drive in found] == rates


def test_a_third_slow_drive_is_left_out():
    found = drives(2)
    measure_weights(found, at_once(found, [2.0, 1.0, 0.1]))
    assert [drive.weight for drive in found] == [2.0, 1.0, 0.0]


def test_two_directories_on_one_drive_are_as_one():
    found = drives(1)
    measure_weights(found, lambda: 2.0)
    assert sorted(drive.weight for drive in found) == [0.0, 2.0]


def test_the_models_own_drive_comes_first_where_a_mirror_is_hardly_faster():
    found = drives(1)
    rates = iter([2.0, 2.04, 2.05])
    measure_weights(found, lambda: next(rates))
    assert [drive.weight for drive in found] == [2.0, 0.0]


def test_a_mirror_that_makes_the_others_wait_is_left_out():
    found = drives(1)
    measure_weights(found, lambda: 1.0 if all(drive.weight for drive in found) else 1.5)
    assert sorted(drive.weight for drive in found) == [0.0, 1.5]


def test_a_slow_model_is_not_read_where_a_mirror_is_fast():
    found = drives(1)
    measure_weights(found, at_once(found, [0.01, 1.0]))
    assert [drive.weight for drive in found] == [0.0, 1.0]


def test_a_drive_that_cannot_be_read_gets_nothing():
    found = drives(1)
    measure_weights(found, lambda: None if found[1].weight else 3.0)
    assert [drive.weight for drive in found] == [3.0, 0.0]


def test_none_can_be_read():
    found = drives(1)
    measure_weights(found, lambda: None)
    assert [drive.weight for drive in found] == [0.0, 0.0]


@pytest.mark.parametrize("read", [None, "python"])
def test_measured_on_the_experts_themselves(model_of, tmp_path, monkeypatch, read):
    import os

    monkeypatch.setattr("colibri.experts.weights.SECONDS", 0.01)
    model = shutil.copytree(model_of("olmoe", "int4"), tmp_path / "model")
    stage(model, tmp_path / "a", "shards")
    layers = layers_of(model)
    found = open_drives(layers, [tmp_path / "a"])
    options = {} if read is None else {"read": os.preadv}
    experts = StreamedExperts(layers, slots_per_layer=1, drives=found, **options)
    assert max(drive.weight for drive in found) > 1e5  # bytes a second
    assert [drive.nbytes for drive in experts.stats().drives] == [0, 0]
    experts.close()
