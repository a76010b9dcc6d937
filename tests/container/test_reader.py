from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_model import (
    EXPERTS,
    HIDDEN,
    INNER,
    LAYERS,
    expert_tensors,
    fused,
    trunk_tensors,
    weight_map,
    write_config,
    write_sharded,
    write_tensors,
)

from colibri.container.layerexperts import LayerExperts
from colibri.container.reader import Container, open_container
from colibri.container.weights import WeightMap
from colibri.errors import ContainerError, UnsupportedModelError

EXPERT_ARRAYS = expert_tensors()
Arrays = dict[str, np.ndarray[Any, Any]]


def open_tiny(path: Path, draft: bool = False) -> Container:
    return open_container(path, lambda config: weight_map(draft))


def write_checkpoint(path: Path, tensors: Arrays) -> None:
    write_config(path)
    write_tensors(path / "model.safetensors", tensors)


def refusal(path: Path, draft: bool = False, error: type[Exception] = ContainerError) -> str:
    with pytest.raises(error) as e:
        open_tiny(path, draft)
    assert len(str(e.value)) < 2000
    return str(e.value)


def load_slot(layer: LayerExperts, expert: int) -> np.ndarray[Any, Any]:
    """What the loader does: every span at its place in the slot, whole pages."""
    slot = np.full(layer.slot_bytes, 0xAA, np.uint8)
    for s in layer.reads(expert):
        assert s.offset % 4096 == s.nbytes % 4096 == s.slot_offset % 4096 == 0
        assert s.slot_offset + s.nbytes <= layer.slot_bytes
        data = s.file.read_bytes()[s.offset : s.offset + s.nbytes]
        assert s.needed <= len(data) <= s.nbytes
        slot[s.slot_offset : s.slot_offset + s.needed] = np.frombuffer(data, np.uint8)[: s.needed]
    return slot


def part(layer: LayerExperts, expert: int, i: int, dtype: Any) -> np.ndarray[Any, Any]:
    shape = (HIDDEN, INNER) if i == 2 else (INNER, HIDDEN)
    start = layer.parts(expert)[i]
    data = load_slot(layer, expert)[start : start + int(np.prod(shape)) * np.dtype(dtype).itemsize]
    return data.view(dtype).reshape(shape)


def assert_experts(c: Container, arrays: Arrays) -> None:
    assert list(c.expert_layers()) == list(range(LAYERS))
    for n, layer in c.expert_layers().items():
        assert (layer.layer, layer.num_experts, layer.record) == (n, EXPERTS, False)
        assert (layer.layout.hidden, layer.layout.inner) == (HIDDEN, INNER)
        for e in range(EXPERTS):
            for i, name in enumerate(("gate", "up", "down")):
                expected = arrays[f"model.layers.{n}.experts.{e}.{name}.weight"]
                np.testing.assert_array_equal(part(layer, e, i, expected.dtype), expected)


@pytest.mark.parametrize("dtype", ["bf16", "float16", "float32"])
@pytest.mark.parametrize("shards", [1, 5])
def test_a_checkpoint_with_an_expert_a_tensor(tmp_path: Path, dtype: str, shards: int) -> None:
    experts = expert_tensors(dtype=dtype)
    write_config(tmp_path)
    write_sharded(tmp_path, {**trunk_tensors(), **experts}, shards)
    c = open_tiny(tmp_path)
    assert not c.converted
    assert c.expert_layers()[0].layout.format.name == {"float16": "f16", "float32": "f32"}.get(
        dtype, dtype
    )
    assert_experts(c, experts)


def test_fused_experts(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**trunk_tensors(), **fused(EXPERT_ARRAYS)})
    assert_experts(open_tiny(tmp_path), EXPERT_ARRAYS)


def test_adjacent_parts_are_one_read(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**trunk_tensors(), **EXPERT_ARRAYS})
    assert len(open_tiny(tmp_path).expert_layers()[1].reads(2)) == 1


def test_far_parts_are_read_apart(tmp_path: Path) -> None:
    experts, far = dict(EXPERT_ARRAYS), {}
    for name in [n for n in experts if ".down." in n]:
        far[name] = experts.pop(name)
    gap = {"model.layers.0.rotary.inv_freq": np.zeros(64 << 10, np.uint8)}
    write_checkpoint(tmp_path, {**trunk_tensors(), **experts, **gap, **far})
    c = open_tiny(tmp_path)
    assert [len(c.expert_layers()[1].reads(e)) for e in range(EXPERTS)] == [2] * EXPERTS
    assert_experts(c, EXPERT_ARRAYS)


def test_trunk_tensors(tmp_path: Path) -> None:
    trunk = trunk_tensors()
    write_checkpoint(
        tmp_path,
        {**trunk, "model.layers.0.rotary.inv_freq": np.ones(2, np.float32), **EXPERT_ARRAYS},
    )
    c = open_tiny(tmp_path)
    assert set(c.names()) == set(trunk)
    assert c.trunk_bytes == sum(a.nbytes for a in trunk.values())
    assert c.stored_bits is None
    info = c.info("model.layers.0.q_proj.weight")
    assert (info.format.name, info.shape, info.multiplier) == ("bf16", (HIDDEN, HIDDEN), 1.0)
    for name, a in trunk.items():
        np.testing.assert_array_equal(c.read_all(name), a)
        np.testing.assert_array_equal(c.read_rows(name, 3, 17), a[3:17])
        assert c.read_rows(name, 0, 1).flags.writeable
    with pytest.raises(ContainerError, match=r"'model\.nothing' is missing"):
        c.info("model.nothing")
    with pytest.raises(ValueError, match="rows 3"):
        c.read_rows("model.norm.weight", 3, HIDDEN + 1)


def test_a_file_that_shrinks_after_it_was_opened(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**EXPERT_ARRAYS, **trunk_tensors()})
    c = open_tiny(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ContainerError, match="cut short"):
        c.read_all(list(trunk_tensors())[-1])


def test_draft_layers_are_optional_but_whole(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**trunk_tensors(), **EXPERT_ARRAYS})
    assert list(open_tiny(tmp_path, draft=True).expert_layers()) == [0, 1]
    three = expert_tensors(LAYERS + 1)
    write_checkpoint(tmp_path, {**trunk_tensors(), **three})
    assert open_tiny(tmp_path, draft=True).expert_layers()[2].draft
    three.popitem()
    write_checkpoint(tmp_path, {**trunk_tensors(), **three})
    assert "layer 2: expert 2 of 3 lacks down" in refusal(tmp_path, draft=True)


@pytest.mark.parametrize("name", [*trunk_tensors(), *list(EXPERT_ARRAYS)[:4]])
def test_a_missing_tensor(tmp_path: Path, name: str) -> None:
    tensors = {**trunk_tensors(), **EXPERT_ARRAYS}
    del tensors[name]
    write_checkpoint(tmp_path, tensors)
    message = refusal(tmp_path)
    if "experts" in name:
        *_, expert, part, _ = name.split(".")
        assert f"layer 0: expert {expert} of 3 lacks {part}" in message
    else:
        assert f"1 of 4 tensors is missing: '{name}'" in message


def test_a_whole_layer_missing(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**trunk_tensors(), **expert_tensors(1)})
    assert "layer 1: expert 0 of 3 lacks gate, up, down" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("name", "shape", "part"),
    [
        ("model.norm.weight", (HIDDEN + 1,), "shape [73], but by config.json [72]"),
        ("model.embed_tokens.weight", (HIDDEN, 50), "by config.json [50, 72]"),
        ("model.layers.0.experts.1.up.weight", (HIDDEN, INNER), "by config.json [40, 72]"),
        ("model.layers.0.experts.1.down.weight", (0,), "by config.json [72, 40]"),
        ("model.layers.0.experts.3.down.weight", (HIDDEN, INNER), "the layer has 3 experts"),
        ("model.layers.2.experts.0.down.weight", (HIDDEN, INNER), "layer 2 has no experts"),
        ("model.layers.0.experts.gate_up", (EXPERTS, 2 * INNER, HIDDEN), "are both gate of expert"),
        ("model.layers.0.experts.gate_up", (EXPERTS, HIDDEN, 2 * INNER), "by config.json [3, 80"),
        ("model.layers.0.experts.down", (EXPERTS + 1, HIDDEN, INNER), "by config.json [3, 72"),
        ("model.layers.0.bias", (1,), "1 tensor is not part of this model family"),
    ],
)
def test_a_contradictory_tensor(tmp_path: Path, name: str, shape: Any, part: str) -> None:
    tensors = {**trunk_tensors(), **EXPERT_ARRAYS, name: np.zeros(shape, np.uint16)}
    write_checkpoint(tmp_path, tensors)
    message = refusal(tmp_path)
    assert part in message
    assert name in message


def test_dtypes_that_need_other_kernels_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("model.layers.0.experts.1.up.weight", "model.layers.0.q_proj.weight"):
        tensors = {**trunk_tensors(), **EXPERT_ARRAYS}
        tensors[name] = np.zeros(tensors[name].shape, np.uint8)
        write_checkpoint(tmp_path, tensors)
        message = refusal(tmp_path, error=UnsupportedModelError)
        assert name in message
        assert "U8" in message


def test_quantised_weights_are_refused_before_their_unknown_scales(tmp_path: Path) -> None:
    name = "model.layers.0.experts.1.up.weight"
    tensors = {**trunk_tensors(), **EXPERT_ARRAYS}
    tensors[name] = np.zeros(tensors[name].shape, np.int8)
    tensors[name + "_scale_inv"] = np.ones((1, 1), np.float32)
    write_checkpoint(tmp_path, tensors)
    message = refusal(tmp_path, error=UnsupportedModelError)
    assert f"'{name}': I8 weights are not supported" in message


def test_experts_of_two_dtypes_in_a_layer(tmp_path: Path) -> None:
    tensors = {**trunk_tensors(), **EXPERT_ARRAYS}
    name = "model.layers.0.experts.1.up.weight"
    tensors[name] = np.zeros((INNER, HIDDEN), np.float16)
    write_checkpoint(tmp_path, tensors)
    assert name in refusal(tmp_path, error=UnsupportedModelError)


def test_a_config_with_an_absurd_number_of_experts_costs_nothing(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**trunk_tensors(), **EXPERT_ARRAYS})
    small = weight_map()
    shapes = {n: type(s)(10**15, s.hidden, s.inner) for n, s in small.experts.items()}
    with pytest.raises(ContainerError, match="expert 3 of 1000000000000000 lacks"):
        open_container(tmp_path, lambda _: WeightMap(small.rules, shapes, small.required))


def test_many_unknown_names_make_a_short_message(tmp_path: Path) -> None:
    extra = {f"x{i}\n" + "y" * 500: np.zeros(1, np.float32) for i in range(300)}
    write_checkpoint(tmp_path, {**trunk_tensors(), **EXPERT_ARRAYS, **extra})
    message = refusal(tmp_path)
    assert "300 tensors" in message
    assert "\n" not in message
