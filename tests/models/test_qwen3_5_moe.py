"""Qwen3.5-MoE in the layouts that it is released in: with vision and longer names, experts fused,
a draft layer beside."""

import json
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
from scripts import fp8
from scripts.fp8 import fuse

FAMILY = "qwen3_5_moe"
EXACT: dict[str, Any] = {"trunk_bits": "source", "embed_bits": 32}
F32 = NDArray[np.float32]


def draft_of(tensors: dict[str, F32]) -> dict[str, F32]:
    """An MTP layer, which has full attention: the last layer's weights under its names."""
    last = "model.layers.3."
    draft = {name.replace(last, "mtp.layers.0."): w for name, w in tensors.items() if last in name}
    hidden = tensors["model.norm.weight"]
    norms = ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    draft |= {f"mtp.{name}.weight": hidden for name in norms}
    return draft | {"mtp.fc.weight": np.ones((len(hidden), 2 * len(hidden)), np.float32)}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny text checkpoint as the released ones with vision are laid out."""
    target = tmp_path_factory.mktemp("released")
    source = golden.tiny(FAMILY)
    tensors = load_file(source / "model.safetensors")
    whole = fuse(tensors) | draft_of(fuse(tensors))
    named = {name.replace("model.", "model.language_model."): w for name, w in whole.items()}
    named["model.visual.patch_embed.proj.weight"] = np.ones((4, 3), np.float32)
    save_file(named, target / "model.safetensors")
    text = read_json(source / "config.json") | {"mtp_num_hidden_layers": 1}
    tied = text.pop("tie_word_embeddings")
    config = {"model_type": FAMILY, "text_config": text, "tie_word_embeddings": tied}
    (target / "config.json").write_text(json.dumps(config | {"vision_config": {"depth": 2}}))
    return target


def logits(path: Path) -> F32:
    with LLM(path, **EXACT) as llm:
        return llm.forward(golden.reference(FAMILY).prompt_ids)


def test_released_layout_gives_the_bits_of_the_plain_one(released: Path) -> None:
    assert_same_bits(logits(released), logits(golden.tiny(FAMILY)))


def test_released_layout_in_fp8(released: Path, tmp_path: Path) -> None:
    stored = fp8.write(released, tmp_path / "fp8", scales="bf16")
    values = fp8.write(released, tmp_path / "values", scales="bf16", values=True)
    assert_same_bits(logits(stored), logits(values))
    container = open_container(stored, lambda c: family_for(c).weights_of(c))
    assert {n: one.draft for n, one in container.layers.items()}[4]
    assert container.layers[4].layout.num_parts == 6


def test_draft_layer_is_converted_and_kept_and_the_tower_left_out(
    released: Path, tmp_path: Path
) -> None:
    family = family_for(read_json(released / "config.json"))
    weights = family.weights_of(read_json(released / "config.json"))
    convert(released, tmp_path / "out", weights=weights, family=FAMILY, scheme="int8-gs64")
    layers = {one.layer: one.draft for one in read_manifest(tmp_path / "out").experts}
    assert layers == {0: False, 1: False, 2: False, 3: False, 4: True}
    converted = open_container(tmp_path / "out", family.weights_of)
    assert {"mtp.fc.weight", "mtp.layers.0.self_attn.q_proj.weight"} <= set(converted.names())
    assert not any("visual" in name for name in converted.names())
    assert np.isfinite(logits(tmp_path / "out")).all()


def test_names_of_the_other_layout_are_missing_by_name(released: Path, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(released / "model.safetensors")
    config = json.loads((released / "config.json").read_text())["text_config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ContainerError, match=r"model\.layers|model\.embed_tokens|unknown"):
        LLM(tmp_path, **EXACT)


def test_sizes_count_the_recurrent_state_a_sequence() -> None:
    config = read_json(golden.tiny(FAMILY) / "config.json")
    family = family_for(config)
    sizes = family.sizes(family.parse(config))
    state = 4 * 16 * 16 + 3 * 128  # a matrix a head, and the convolution's window
    assert sizes.sequence_bytes == 3 * 2 * 4 * state
    assert sizes.state_bytes == 4 * 2 * 2 * 32
    assert sizes.sequence_positions == -(-sizes.sequence_bytes // sizes.state_bytes)
