"""Checkpoints in fp8: the bits of the float32 weights that their codes and scales stand for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_kit import dying, fast_directory, tree

import golden
from colibri import LLM
from colibri.container.header import read_header
from colibri.container.jsonfile import read_json
from colibri.container.manifest import read_manifest
from colibri.container.reader import open_container
from colibri.convert.loop import convert
from colibri.errors import ColibriError, ContainerError
from colibri.formats.fp8 import Fp8Format
from colibri.lab.verify.verify import verify
from colibri.models.registry import family_for
from fp8_kit import wide
from promises import assert_same_bits
from scripts import fp8

EXACT: dict[str, Any] = {"trunk_bits": "source", "embed_bits": 32}


def logits(path: Path, **settings: Any) -> Any:
    prompt = [(7 * i + 3) % 90 for i in range(19)]
    with LLM(path, **settings) as llm:
        return llm.forward(prompt)


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_a_run_has_the_bits_of_the_values(family: str, tmp_path: Path) -> None:
    """At every precision of the trunk; float32 checkpoints are held to transformers."""
    number = golden.FAMILIES.index(family)
    form: Any = {"scales": ("f32", "bf16", "ue8m0")[number % 3]}
    stored = fp8.write(golden.tiny(family), tmp_path / "fp8", shards=1 + number % 2, **form)
    values = fp8.write(golden.tiny(family), tmp_path / "values", values=True, **form)
    for settings in (EXACT, {"trunk_bits": 8}, {"trunk_bits": 4, "cache_experts": 2}):
        assert_same_bits(logits(stored, **settings), logits(values, **settings))


@pytest.mark.parametrize(("family", "fused"), [("qwen3_moe", True), ("glm_moe_dsa", False)])
def test_matrices_of_several_blocks(family: str, fused: bool, tmp_path: Path) -> None:
    """Fused, the rows of up begin inside of a block."""
    source = wide(family, tmp_path / "f32")
    stored = fp8.write(source, tmp_path / "fp8", fused=fused)
    values = fp8.write(source, tmp_path / "values", fused=fused, values=True)
    expected = logits(values, **EXACT)
    assert np.isfinite(expected).all()
    assert_same_bits(logits(stored, **EXACT, cache_experts=3, prefill_chunk=4), expected)
    assert_same_bits(logits(stored, trunk_bits=4), logits(values, trunk_bits=4))


def converted(source: Path, target: Path, **options: Any) -> Path:
    config = read_json(source / "config.json")
    family = family_for(config)
    convert(source, target, weights=family.weights_of(config), family=family.name, **options)
    return target


@pytest.mark.parametrize(
    ("scheme", "fused", "trunk"), [("int4-gs64", True, "source"), ("int8-gs64", False, 8)]
)
def test_conversion_packs_the_values(scheme: str, fused: bool, trunk: Any, tmp_path: Path) -> None:
    source = golden.tiny("glm_moe_dsa") if trunk == 8 else wide("qwen3_moe", tmp_path / "f32")
    stored = fp8.write(source, tmp_path / "fp8", fused=fused, scales="bf16", shards=3)
    values = fp8.write(source, tmp_path / "values", scales="bf16", fused=fused, values=True)
    options = {"scheme": scheme, "store_trunk": trunk}
    a = converted(stored, tmp_path / "a", **options)
    b = converted(values, tmp_path / "b", **options)
    records = sorted(file.name for file in a.glob("experts-*"))
    assert records
    for name in records:
        assert (a / name).read_bytes() == (b / name).read_bytes()
    assert_same_bits(logits(a), logits(b))
    manifest = read_manifest(a)
    assert manifest.quantization["source"] == {
        "experts": ["fp8-e4m3-b128-bf16"],
        "trunk": ["f32", "fp8-e4m3-b128-bf16"],
    }
    assert verify(a, stored, sample=2, prompts=0).failures == []


@pytest.mark.parametrize("name", ["mlp.experts.3.up_proj", "self_attn.o_proj"])
def test_conversion_refuses_a_nan_code_by_name(name: str, tmp_path: Path) -> None:
    stored = fp8.write(golden.tiny("olmoe"), tmp_path / "fp8")
    tensor = f"model.layers.1.{name}.weight"
    info = read_header(stored / "model.safetensors")[0][tensor]
    with (stored / "model.safetensors").open("r+b") as file:
        file.seek(info.offset + 77)
        file.write(b"\xff")
    with pytest.raises(ContainerError, match=f"{tensor}': element 77 is not finite"):
        converted(stored, tmp_path / "out")


def test_conversion_killed_and_resumed(tmp_path: Path) -> None:
    """Source files go as soon as all that came from them is there: also those with scales only."""
    stored = fp8.write(golden.tiny("olmoe"), tmp_path / "fp8", fused=True, shards=2)
    whole = tree(converted(stored, tmp_path / "whole"))
    with fast_directory(tmp_path) as work:
        states = dying(stored, work, "delete", stride=23)
    assert sum(state["killed"] for state in states) >= 4
    for state in states:
        assert not state["failed"], state["n"]
        assert state["after"] == {"source": [], "out": whole}, state["n"]


def test_a_nan_code_in_a_streamed_expert_ends_the_answer(tmp_path: Path) -> None:
    stored = fp8.write(golden.tiny("olmoe"), tmp_path / "fp8")
    tensors = read_header(stored / "model.safetensors")[0]
    with (stored / "model.safetensors").open("r+b") as file:
        for expert in range(8):
            file.seek(tensors[f"model.layers.1.mlp.experts.{expert}.down_proj.weight"].offset)
            file.write(b"\x7f")
    with pytest.raises(ColibriError, match="layer 2, row 0: a router logit is not finite"):
        logits(stored, **EXACT)


def test_a_converted_trunk_stays_in_fp8(tmp_path: Path) -> None:
    stored = fp8.write(golden.tiny("glm_moe_dsa"), tmp_path / "fp8", scales="ue8m0")
    target = converted(stored, tmp_path / "out")
    container = open_container(target, lambda c: family_for(c).weights_of(c))
    name = "model.layers.0.self_attn.o_proj.weight"
    assert container.info(name).format.name == "fp8-e4m3-b128-ue8m0"
    assert_same_bits(logits(target, **EXACT), logits(target, **EXACT, prefill_chunk=1))
    with LLM(stored, **EXACT) as llm:
        o_proj: Any = llm._engine.model.layers[0].mixer
        assert isinstance(o_proj.o_proj.weight.format, Fp8Format)
