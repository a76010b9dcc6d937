"""Headers alone: what a plan may be made from, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import golden
from colibri.container.header import read_header
from colibri.container.missing import without_data
from colibri.container.reader import Container, open_container
from colibri.errors import ContainerError, UnsupportedModelError
from colibri.models.registry import family_for

INDEX = "model.safetensors.index.json"
FILE = "model.safetensors"


def weights_of(config: dict[str, Any]) -> Any:
    return family_for(config).weights_of(config)


def outline(path: Path) -> Container:
    return open_container(path, weights_of, incomplete=True)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Its own copy of a tiny checkpoint, cut off behind the header."""
    shutil.copytree(golden.tiny("qwen3_moe"), tmp_path / "m")
    cut(tmp_path / "m" / FILE)
    return tmp_path / "m"


def cut(file: Path, more: int = 0) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: 8 + int.from_bytes(data[:8], "little") + more])


def with_index(model: Path, *, keep: bool) -> dict[str, str]:
    """Only an index in place of the file, unless it is to be kept."""
    weight_map = dict.fromkeys(read_header(model / FILE, cut_short=True)[0], FILE)
    (model / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    if not keep:
        (model / FILE).unlink()
    return weight_map


def sizes(container: Container) -> Any:
    layers = container.expert_layers().values()
    trunk = {n: container.info(n).nbytes for n in container.weights.required}
    return trunk, [(n.layer, n.num_experts, n.layout) for n in layers]


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_headers_alone_give_the_sizes_of_the_whole(family: str, tmp_path: Path) -> None:
    whole = outline(golden.tiny(family))
    shutil.copytree(golden.tiny(family), tmp_path / "m")
    cut(tmp_path / "m" / FILE)
    found = outline(tmp_path / "m")
    assert sizes(found) == sizes(whole)
    assert (without_data(whole), without_data(found)) == ((0, 1), (1, 1))


def test_running_wants_the_whole(model: Path) -> None:
    with pytest.raises(ContainerError, match="cut short"):
        open_container(model, weights_of)


def test_a_weight_that_is_not_there_is_an_error(model: Path) -> None:
    found = outline(model)
    with pytest.raises(ContainerError, match=r"were\s+expected|cut short"):
        found.read_all("model.norm.weight")


def test_half_a_download_is_no_whole(model: Path) -> None:
    shutil.copy(golden.tiny("qwen3_moe") / FILE, model / FILE)
    cut(model / FILE, more=1000)
    assert without_data(outline(model)) == (1, 1)


@pytest.mark.parametrize("keep", [True, False])
def test_an_index_is_enough(model: Path, keep: bool) -> None:
    """The dtype is the config's: float32 in this fixture."""
    with_index(model, keep=keep)
    assert sizes(outline(model)) == sizes(outline(golden.tiny("qwen3_moe")))
    assert without_data(outline(model)) == (1, 1)


@pytest.mark.parametrize(("said", "bytes_each"), [("bfloat16", 2), (None, 2), ("float32", 4)])
def test_the_dtype_is_what_the_config_says(model: Path, said: str | None, bytes_each: int) -> None:
    config = json.loads((model / "config.json").read_text())
    config.pop("torch_dtype", None)
    config["dtype"] = said
    (model / "config.json").write_text(json.dumps(config))
    with_index(model, keep=False)
    assert outline(model).info("model.norm.weight").nbytes == bytes_each * config["hidden_size"]


def test_quantised_weights_are_refused_by_name(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (model / "config.json").write_text(json.dumps(config))
    with_index(model, keep=False)
    with pytest.raises(UnsupportedModelError, match="MXFP4"):
        outline(model)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("model.layers.0.mlp.experts.7.up_proj.weight", "lacks up"),
        ("model.norm.weight", "missing"),
        (None, "not part of this model family"),
    ],
)
def test_an_index_of_another_model(model: Path, name: str | None, says: str) -> None:
    weight_map = with_index(model, keep=False)
    if name is None:
        weight_map["model.layers.0.strange.weight"] = FILE
    else:
        del weight_map[name]
    (model / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ContainerError, match=says):
        outline(model)


def test_nothing_but_a_config(model: Path) -> None:
    (model / FILE).unlink()
    with pytest.raises(ContainerError, match=r"no \.safetensors files"):
        outline(model)


@pytest.mark.parametrize("data", [b"", b"\0" * 8, (1 << 40).to_bytes(8, "little") + b"{}"])
def test_no_header_is_no_headers_only(model: Path, data: bytes) -> None:
    (model / FILE).write_bytes(data)
    with pytest.raises(ContainerError, match="safetensors"):
        outline(model)
