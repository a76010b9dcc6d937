"""GLM-5.3-Flash with what its releases have beside the text that runs: a draft layer with a plain
residual, and a tower."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

import golden
from colibri import LLM
from colibri.container.jsonfile import read_json
from colibri.container.manifest import read_manifest
from colibri.container.reader import open_container
from colibri.convert.loop import convert
from colibri.errors import ContainerError
from colibri.models.registry import family_for
from promises import assert_same_bits

FAMILY = "glm5_next"
TEXT = "model.language_model."
EXACT: dict[str, Any] = {"trunk_bits": "source", "embed_bits": 32}
F32 = NDArray[np.float32]


def draft_of(tensors: dict[str, F32]) -> dict[str, F32]:
    """Layer 4: the last layer's weights, without those that mix streams."""
    last, draft = f"{TEXT}layers.3.", f"{TEXT}layers.4."
    kept = {n.replace(last, draft): w for n, w in tensors.items() if last in n and ".hc_" not in n}
    hidden = tensors[f"{TEXT}norm.weight"]
    kept |= {f"{draft}{norm}.weight": hidden for norm in ("enorm", "hnorm", "shared_head.norm")}
    return kept | {f"{draft}eh_proj.weight": np.ones((len(hidden), 2 * len(hidden)), np.float32)}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("released")
    tensors = load_file(golden.tiny(FAMILY) / "model.safetensors")
    save_file(tensors | draft_of(tensors), target / "model.safetensors")
    config = read_json(golden.tiny(FAMILY) / "config.json")
    config["text_config"]["num_nextn_predict_layers"] = 1
    (target / "config.json").write_text(json.dumps(config))
    return target


def logits(path: Path) -> F32:
    with LLM(path, **EXACT) as llm:
        return llm.forward(golden.reference(FAMILY).prompt_ids)


def test_a_draft_layer_changes_no_bit(released: Path) -> None:
    assert_same_bits(logits(released), logits(golden.tiny(FAMILY)))


def test_draft_layer_and_tower_are_converted_and_kept(released: Path, tmp_path: Path) -> None:
    family = family_for(read_json(released / "config.json"))
    weights = family.weights_of(read_json(released / "config.json"))
    convert(released, tmp_path / "out", weights=weights, family=FAMILY, scheme="int8-gs64")
    layers = {one.layer: one.draft for one in read_manifest(tmp_path / "out").experts}
    assert layers == {1: False, 2: False, 3: False, 4: True}
    source, converted = (open_container(p, family.weights_of) for p in (released, tmp_path / "out"))
    assert set(converted.names()) == set(source.names())
    beside = set(converted.names()) - set(weights.required)
    assert {f"{TEXT}layers.4.eh_proj.weight", "model.visual.patch_embed.proj.weight"} <= beside
    assert not any(f"{TEXT}layers.4" in name or "visual" in name for name in weights.required)
    assert np.isfinite(logits(tmp_path / "out")).all()


def test_what_mixes_the_streams_is_never_packed() -> None:
    config = read_json(golden.tiny(FAMILY) / "config.json")
    weights = family_for(config).weights_of(config)
    mixing = [name for name in weights.required if ".hc_" in name]
    assert len(mixing) == 4 * 2 * 3
    for name in mixing:
        match = weights.classify(name)
        assert match is not None
        assert match.rule.kind == "exact"


def test_a_layer_without_them_is_refused_by_name(tmp_path: Path) -> None:
    source = golden.tiny(FAMILY)
    tensors = load_file(source / "model.safetensors")
    del tensors[f"{TEXT}layers.2.hc_ffn_fn"]
    save_file(tensors, tmp_path / "model.safetensors")
    shutil.copy(source / "config.json", tmp_path)
    with pytest.raises(ContainerError, match=r"layers\.2\.hc_ffn_fn"):
        LLM(tmp_path, **EXACT)


def test_the_limit_is_one_that_values_reach(tmp_path: Path) -> None:
    """Else nothing here would see that it holds."""
    shutil.copytree(golden.tiny(FAMILY), tmp_path / "free")
    config = read_json(tmp_path / "free" / "config.json")
    config["text_config"]["swiglu_limit"] = 100.0
    (tmp_path / "free" / "config.json").write_text(json.dumps(config))
    assert np.abs(logits(tmp_path / "free") - logits(golden.tiny(FAMILY))).max() > 0.1


def test_sizes_count_what_a_sequence_has_whatever_its_length() -> None:
    config = read_json(golden.tiny(FAMILY) / "config.json")
    family = family_for(config)
    sizes = family.sizes(family.parse(config))
    state = 4 * 16 * 16 + 3 * 192  # a matrix a head, and the convolution's window
    recent = 7 * 2 * 32  # keys and gates of an open pool and one before it
    assert sizes.sequence_bytes == 2 * 2 * 4 * (state + recent)
    assert sizes.state_bytes == 2 * 4 * (32 + 32 // 4)
