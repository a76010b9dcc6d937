"""What is chosen from measured rates; and that measuring really reads, and says when it cannot."""

import os

import pytest
from faults import Faulty, io_error
from model import Layer, write_layer

from colibri.experts import readbench
from colibri.experts.cache.arena import Arena
from colibri.experts.readbench import READERS, Choice, choose, fewest
from colibri.experts.streamed import StreamedExperts


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experts")
    layers = [Layer(n, folder / f"layer{n}") for n in range(6)]
    for layer in layers:
        write_layer(layer)
    return layers


@pytest.fixture
def slots(layers):
    arena = Arena({layers[0].slot_bytes: 3})
    yield [arena.view(slot) for slot in arena.take(layers[0].slot_bytes, 3)]
    arena.close()


def measured(monkeypatch, direct, buffered):
    """Rates made up: of direct reads by readers, of buffered ones, which are asked for last."""
    asked = []

    def rate(self, readers, mode):
        asked.append((readers, mode))
        return direct.get(readers) if mode == "auto" else buffered

    monkeypatch.setattr(readbench.Bench, "rate", rate)
    return asked


@pytest.mark.parametrize(
    ("rates", "readers"),
    [
        ({1: 2.0, 2: 2.0, 4: 2.0, 8: 2.0}, 1),
        ({1: 0.5, 2: 1.0, 4: 1.96, 8: 2.0}, 4),
        ({1: 0.5, 2: 1.0, 4: 1.9, 8: 2.0}, 8),
        ({1: 1.0, 2: 2.0, 4: 1.5, 8: 1.0}, 2),
    ],
)
def test_the_fewest_readers_that_nearly_reach_the_best(rates, readers):
    assert fewest(rates) == readers


@pytest.mark.parametrize(("buffered", "direct"), [(1.0, "auto"), (2.05, "auto"), (2.1, "off")])
def test_buffered_reads_only_where_clearly_faster(layers, slots, monkeypatch, buffered, direct):
    asked = measured(monkeypatch, dict.fromkeys(READERS, 2.0), buffered)
    assert choose(layers, slots, os.preadv, "auto") == Choice(1, direct)
    assert asked[-1] == (1, "off")


def test_who_wants_direct_reads_gets_them(layers, slots, monkeypatch):
    measured(monkeypatch, {1: 1.0, 2: 2.0, 4: 2.0, 8: 2.0}, 9.0)
    assert choose(layers, slots, os.preadv, "on") == Choice(2, "on")


def test_what_cannot_be_measured_keeps_the_defaults(layers, slots, monkeypatch):
    assert choose(layers, slots, Faulty(io_error), "auto", 0.01) == Choice(4, "auto")
    assert choose(layers, slots, os.preadv, "off") == Choice(4, "off")
    monkeypatch.setattr("colibri.experts.reads.files._DIRECT", 0)
    assert choose(layers, slots, os.preadv, "auto", 0.01) == Choice(4, "auto")


def test_it_reads_the_experts_themselves(layers, slots):
    read = Faulty()
    choice = choose(layers, slots, read, "auto", 0.02)
    assert choice.readers in READERS
    assert read.count > len(READERS)


def test_the_executor_measures_when_asked_and_not_all_fits(layers, monkeypatch):
    sources = {layer.layer: layer for layer in layers}
    monkeypatch.setattr("colibri.experts.streamed.choose", lambda *_: Choice(2, "off"))
    for slots, readers, expected in ((3, "auto", 2), (12, "auto", 4), (3, 7, 7)):
        experts = StreamedExperts(sources, slots_per_layer=slots, readers=readers)
        assert experts.readers == expected
        experts.close()
