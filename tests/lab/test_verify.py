"""A converted model against its source: good ones pass, each kind of damage is found and named."""

import json
import shutil

import numpy as np
import pytest

import golden
from colibri.container.reader import Container, open_container
from colibri.container.spec import TAIL_BYTES, RecordTail, pack_tail, parse_tail
from colibri.convert.loop import convert
from colibri.errors import ConfigError, ContainerError
from colibri.lab.prompts import PROMPTS, prompt_ids
from colibri.lab.verify import results
from colibri.lab.verify.cosine import Likeness, likeness
from colibri.lab.verify.records import spread
from colibri.lab.verify.side import Side
from colibri.lab.verify.verify import verify
from colibri.lab.verify.walk import agreement, kl
from colibri.llm import LLM, embedded_model
from colibri.models.registry import family_for


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_conversions_of_every_family_are_good(model_of, family):
    source = golden.tiny(family)
    at_8 = verify(model_of(family, "int8"), source)
    at_4 = verify(model_of(family, "int4"), source, sample=2)
    # Routers of random weights have near-ties that rounding turns: a token or two of a top five.
    assert [failure for failure in at_8.failures if "top-5" not in failure] == []
    assert at_8.logits.top5 > 0.95
    assert (at_8.scheme, at_4.scheme) == ("int8-gs64", "int4-gs64")
    assert at_8.records.compared == at_8.records.of > at_4.records.compared
    assert at_8.records.cosine_least > at_4.records.cosine_least > 0.98
    assert at_8.trunk.cosine_least == 1.0
    assert at_8.logits.kl_mean < at_4.logits.kl_mean


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_a_copy_is_exact(tmp_path, family):
    copy = shutil.copytree(golden.tiny(family), tmp_path / family)
    found = verify(copy, golden.tiny(family), prompts=2)
    assert found.scheme == "exact"
    assert found.failures == []
    assert (found.logits.kl_largest, found.logits.top5) == (0.0, 1.0)
    assert set(found.logits.hidden_cosines) == {1.0}


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_layer_by_layer_gives_the_bits_of_the_engine(model_of, family):
    """The walk is another way through the same layers."""
    path = model_of(family, "int4")
    prompts = prompt_ids(path, _vocabulary(path), 2)
    side = Side(open_container(path, lambda c: family_for(c).weights_of(c)), prompts)
    for layer in range(side.config.num_hidden_layers):
        side.advance(layer)
    logits = side.logits()
    side.close()
    with LLM(path, trunk_bits="source", embed_bits=32, ram="1GB") as llm:
        whole = np.concatenate([llm.forward(ids) for ids in prompts])
    assert np.array_equal(logits.view(np.uint32), whole.view(np.uint32))


def _vocabulary(path):
    config = json.loads((path / "config.json").read_text())
    return config.get("text_config", config)["vocab_size"]


@pytest.fixture
def converted(model_of, tmp_path):
    return shutil.copytree(model_of("olmoe", "int8"), tmp_path / "converted")


def _file_of(path, layer, expert):
    container = open_container(path, lambda c: family_for(c).weights_of(c))
    (span,) = container.expert_layers()[layer].reads(expert)
    return span


def rewrite_record(path, layer, expert, change):
    """Another record with a checksum that is right: only its source can tell."""
    span = _file_of(path, layer, expert)
    data = np.fromfile(span.file, np.uint8)
    record = data[span.offset : span.offset + span.nbytes]
    tail = parse_tail(record[-TAIL_BYTES:], layer, expert, "")
    change(record)
    pack_tail(record, RecordTail(layer, expert, tail.multipliers))
    data.tofile(span.file)


def test_an_expert_with_another_ones_weights_is_named(converted):
    def exchange(record):
        record[:1024] = record[1024:2048]

    rewrite_record(converted, 1, 3, exchange)
    found = verify(converted, golden.tiny("olmoe"), prompts=0)
    assert found.failures
    assert all("layers.1.experts.3." in failure for failure in found.failures)
    assert found.records.worst[0].name.startswith("layers.1.experts.3.")


def test_a_damaged_record_is_an_error(converted):
    span = _file_of(converted, 0, 0)
    data = np.fromfile(span.file, np.uint8)
    data[span.offset + 100] ^= 0xFF
    data.tofile(span.file)
    with pytest.raises(ContainerError, match="checksum"):
        verify(converted, golden.tiny("olmoe"), prompts=0)


def test_a_trunk_tensor_that_differs_is_named(converted):
    (file,) = converted.glob("trunk-*")
    data = np.fromfile(file, np.uint8)
    data[-2] ^= 0x40
    data.tofile(file)
    found = verify(converted, golden.tiny("olmoe"), prompts=0)
    (failure,) = found.failures
    assert found.trunk.worst[0].name in failure


def test_two_models_are_refused(model_of):
    with pytest.raises(ConfigError, match="no conversion"):
        verify(model_of("olmoe", "int8"), golden.tiny("mixtral"))


def test_a_layer_that_only_one_model_has_is_an_error(model_of, monkeypatch):
    """A draft layer may be absent from a model that is otherwise whole."""
    real = Container.expert_layers

    def lacking(self):
        layers = dict(real(self))
        if self.converted:
            del layers[max(layers)]
        return layers

    monkeypatch.setattr(Container, "expert_layers", lacking)
    with pytest.raises(ContainerError, match="only one of the two"):
        verify(model_of("olmoe", "int8"), golden.tiny("olmoe"))


def test_a_trunk_stored_packed_is_held_to_its_own_limit(tmp_path, model_of):
    source, target = golden.tiny("qwen3_moe"), tmp_path / "packed"
    config = json.loads((source / "config.json").read_text())
    weights = family_for(config).weights_of(config)
    convert(source, target, weights=weights, family="qwen3_moe", scheme="int8-gs64", store_trunk=4)
    found = verify(target, source)
    assert found.scheme == "int4-gs64"
    assert {row.scheme for row in found.trunk.worst} == {"int4-gs64"}
    assert not [failure for failure in found.failures if "cosine" in failure]


def test_agreement_of_distributions():
    p = np.array([[5, 4, 3, 2, 1, 0, -1], [5, 4, 3, 2, 1, 0, -1]], np.float32)
    q = p.copy()
    q[1] = q[1][::-1]
    found = agreement(p, q, [1.0])
    assert found.top1 == 0.5
    assert found.top5 == (5 + 3) / 10
    assert found.kl_mean == found.kl_largest / 2 > 0
    two = kl(np.log([0.5, 0.5]).astype(np.float32), np.log([0.25, 0.75]).astype(np.float32))
    assert two == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3), abs=1e-6)


def test_likeness_in_pieces_and_at_the_edges():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 100)).astype(np.float32)
    pieces = Likeness()
    pieces.add(a[:30], b[:30])
    pieces.add(a[30:], b[30:])
    assert pieces.cosine == pytest.approx(likeness(a, b).cosine, abs=1e-12)
    zero = np.zeros(3, np.float32)
    assert likeness(zero, zero).cosine == 1.0
    assert likeness(zero, np.ones(3, np.float32)).cosine == 0.0
    assert likeness(zero, np.full(3, np.nan, np.float32)).cosine != 1.0


def test_limits_catch_what_is_no_number():
    row = results.Matrix("x", "int8-gs64", float("nan"), 0.0)
    assert results.failures([row], None, results.LIMITS["int8-gs64"])


def test_a_sample_is_spread_evenly():
    assert list(spread(8, 3)) == [0, 2, 5]
    assert list(spread(3, 8)) == [0, 1, 2]


def test_prompts_are_text_where_the_model_speaks():
    ids = prompt_ids(embedded_model(), 4096)
    assert len(ids) == len(PROMPTS) == 8
    assert all(8 <= len(prompt) <= 64 for prompt in ids)
    assert ids == prompt_ids(embedded_model(), 4096)
    assert len(prompt_ids(golden.tiny("olmoe"), 100, 3)) == 3
