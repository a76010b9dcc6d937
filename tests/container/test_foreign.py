"""Directories that hold something near a model, and what a person is told of each."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import golden
from colibri.cli import app
from colibri.errors import UnsupportedModelError
from colibri.llm import LLM


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden.tiny("olmoe"), tmp_path / "model"))


def quantised(model: Path, said: Any) -> None:
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = said
    (model / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"quant_method": "awq", "bits": 4}, "by AWQ"),
        ({"quant_method": "gptq", "bits": 4}, "by GPTQ"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "by bitsandbytes"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "ModelOpt ('NVFP4')"),
        (
            {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
            "compressed-tensors ('nvfp4-pack-quantized')",
        ),
        ({"quant_method": "new one"}, "by 'new one'"),
    ],
)
def test_a_method_is_named(
    model: Path, capsys: pytest.CaptureFixture[str], said: Any, named: str
) -> None:
    quantised(model, said)
    for command in (["info"], ["plan", "-m"], ["run", "--ids", "5 6", "-m"]):
        assert app.run([*command, str(model)]) == 3
        error = capsys.readouterr().err
        assert named in error
        assert "BF16" in error


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("hf_quant_config.json", '{"quantization": {"quant_algo": "NVFP4"}}', "('NVFP4')"),
        ("quantize_config.json", '{"bits": 4}', "GPTQ"),
        ("quant_config.json", '{"w_bit": 4}', "AWQ"),
    ],
)
def test_so_is_one_that_has_a_file_of_its_own(
    model: Path, name: str, text: str, named: str
) -> None:
    (model / name).write_text(text)
    with pytest.raises(UnsupportedModelError) as raised:
        LLM(model)
    assert named in str(raised.value)
    assert name in str(raised.value)


def test_nothing_said_is_nothing(model: Path) -> None:
    quantised(model, {})
    assert app.run(["info", str(model)]) == 0


@pytest.mark.parametrize("with_config", [False, True])
def test_an_adapter_is_said_to_be_one(
    model: Path, capsys: pytest.CaptureFixture[str], with_config: bool
) -> None:
    (model / "model.safetensors").rename(model / "adapter_model.safetensors")
    (model / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": "allenai/OLMoE"})
    )
    if not with_config:
        (model / "config.json").unlink()
    assert app.run(["info", str(model)]) == 3
    assert (
        "an adapter of 'allenai/OLMoE' (LoRA or the like), not a model" in capsys.readouterr().err
    )
    with pytest.raises(UnsupportedModelError, match="merge_and_unload"):
        LLM(model)


def test_an_adapter_beside_a_model_is_no_news(model: Path) -> None:
    (model / "adapter_config.json").write_text("{}")
    assert app.run(["info", str(model)]) == 0
