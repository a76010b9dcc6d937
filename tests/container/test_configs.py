"""config.json and the directory itself: missing, damaged, not what they should be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converted_model import write_converted
from tiny_model import expert_tensors, trunk_tensors, weight_map, write_config, write_tensors

from colibri.container.reader import Container, open_container
from colibri.container.weights import WeightMap
from colibri.errors import ConfigError, ContainerError

TENSORS = {**trunk_tensors(), **expert_tensors()}
Arrays = dict[str, np.ndarray[Any, Any]]


def open_tiny(path: Path) -> Container:
    return open_container(path, lambda _: weight_map())


def write_checkpoint(path: Path) -> None:
    write_config(path)
    write_tensors(path / "model.safetensors", TENSORS)


def refusal(path: Path) -> str:
    with pytest.raises(ContainerError) as e:
        open_tiny(path)
    assert len(str(e.value)) < 2000
    return str(e.value)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        '{"a": nul',
        "null",
        "[1]",
        '{"a":' * 100_000,
        '{"a": 1, "a": 2}',
        '{"hidden_size": ' + "9" * 5000 + "}",
        "directory",
    ],
)
@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_damaged_configs(tmp_path: Path, file: str, text: str | None) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / file
    path.unlink(missing_ok=True)
    if text == "directory":
        path.mkdir()
    elif text is not None:
        path.write_text(text)
    elif file != "config.json":
        assert open_tiny(tmp_path).generation_config == {}
        return
    assert str(path) in refusal(tmp_path)


@pytest.mark.parametrize("cut", [0, 1, 5, 10, 17])
def test_a_truncated_config(tmp_path: Path, cut: int) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / "config.json"
    path.write_bytes(path.read_bytes()[:cut])
    assert str(path) in refusal(tmp_path)


def test_configs_are_handed_on(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    write_config(tmp_path, name="鸟", n=None)
    (tmp_path / "generation_config.json").write_text(json.dumps({"temperature": 0.5}))
    seen: list[dict[str, Any]] = []

    def weights(config: dict[str, Any]) -> WeightMap:
        seen.append(config)
        return weight_map()

    c = open_container(tmp_path, weights)
    assert seen == [c.config] == [{"model_type": "tiny", "name": "鸟", "n": None}]
    assert c.generation_config == {"temperature": 0.5}


def test_errors_of_the_family_come_through(tmp_path: Path) -> None:
    def refuse(config: dict[str, Any]) -> WeightMap:
        raise ConfigError("config.json: num_experts is null")

    write_config(tmp_path)
    with pytest.raises(ConfigError, match="num_experts"):
        open_container(tmp_path, refuse)


def test_paths_that_are_no_model(tmp_path: Path) -> None:
    assert "no such directory" in refusal(tmp_path / "nothing")
    (tmp_path / "file").touch()
    assert "is a file" in refusal(tmp_path / "file")
    assert "is a file" in refusal(tmp_path / "file" / "inside")
    assert "config.json: no such file" in refusal(tmp_path)
    write_config(tmp_path)
    assert "no .safetensors files" in refusal(tmp_path)


def test_an_unfinished_conversion_says_so(tmp_path: Path) -> None:
    write_converted(tmp_path)
    (tmp_path / "colibri.json").unlink()
    (tmp_path / ".coli_convert.json").write_text("{}")
    assert "unfinished conversion" in refusal(tmp_path)
