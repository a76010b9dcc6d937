"""Mirrors and spread models as a user meets them: through LLM and `coli run`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from colibri import LLM, SamplingParams
from colibri.cli import app
from colibri.errors import ColibriError, ConfigError, ContainerError
from colibri.llm import embedded_model
from mirror_kit import layers_of, stage

PARAMS = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
PROMPT = "Once upon a time there was"


@pytest.fixture(scope="module")
def expected() -> str:
    with LLM() as llm:
        return llm.generate(PROMPT, PARAMS).text


@pytest.mark.parametrize("damage", ["deleted", "truncated"])
def test_text_is_the_same_whatever_happens_to_the_mirror(
    tmp_path: Path, expected: str, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    mirror = tmp_path / "mirror"
    stage(embedded_model(), mirror, "shards")
    weights = (1.0, 1.0)
    with LLM(mirror=(str(mirror),), disk_weights=weights, cache_experts=4) as llm:
        stream = llm.stream(PROMPT, PARAMS)
        text = next(stream).text
        for file in mirror.glob("*.safetensors"):
            os.truncate(file, 5000)
        if damage == "deleted":
            shutil.rmtree(mirror)
        text += "".join(chunk.text for chunk in stream)
        assert text == expected
        assert llm.generate(PROMPT, PARAMS).text == expected  # wholly after the damage
        own, other = llm.stats().drives
        assert own.nbytes > 0
        assert other.failures > 0
    assert len([r for r in caplog.records if str(mirror) in r.getMessage()]) == 1


def test_run_says_what_came_from_where(
    tmp_path: Path, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stage(embedded_model(), tmp_path / "a")
    stage(embedded_model(), tmp_path / "b", "shards")
    facts = tmp_path / "facts.json"
    arguments = ["run", PROMPT, "--temperature", "0", "--max-tokens", "12", "--ignore-eos"]
    mirrors = ["--mirror", f"{tmp_path / 'a'}", "--mirror", f"{tmp_path / 'b'}"]
    arguments += [*mirrors, "--disk-weights", "1,1,1", "--stats-json", str(facts)]
    assert app.run(arguments) == 0
    out, err = capsys.readouterr()
    assert out.strip() == expected.strip()
    assert "33 % " in err
    line = next(line for line in err.splitlines() if line.startswith("mirror "))
    assert str(tmp_path / "a") in line
    assert str(tmp_path / "b") in line
    drives = json.loads(facts.read_text())["stats"]["drives"]
    assert [Path(d["directory"]).name for d in drives] == ["demo", "a", "b"]
    assert all(d["nbytes"] > 0 for d in drives)


def spread(model: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Every other shard on a second drive."""
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(model, first)
    second.mkdir()
    for path in sorted(first.glob("*.safetensors"))[::2]:
        shutil.move(path, second)
    return first, second


def test_a_model_spread_over_two_drives(tmp_path: Path, expected: str) -> None:
    first, second = spread(embedded_model(), tmp_path)
    with LLM(first, model_dirs=(str(second),), disk_weights=(1.0, 1.0), cache_experts=4) as llm:
        assert llm.generate(PROMPT, PARAMS).text == expected
        assert all(drive.nbytes > 0 for drive in llm.stats().drives)
    mirror = tmp_path / "mirror"
    stage(embedded_model(), mirror)  # the same model, in one place
    settings: Any = {"model_dirs": (str(second),), "mirror": (str(mirror),), "cache_experts": 4}
    with LLM(first, **settings, disk_weights=(1.0, 1.0, 1.0)) as llm:
        assert llm.generate(PROMPT, PARAMS).text == expected
        assert len(llm.stats().drives) == 3


def test_commands_that_read_a_model_find_all_of_it(
    model_of: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = spread(model_of("olmoe", "int4"), tmp_path)
    there = ["--model-dirs", str(second)]
    for arguments in (
        ["info", str(first), *there],
        ["usage", "show", str(first), "--usage", str(tmp_path / "u"), *there],
        ["verify", str(first), "--against", str(model_of("olmoe", "source")), "--sample=1", *there],
    ):
        assert app.run(arguments) == 0, capsys.readouterr().err
        assert app.run(arguments[:-2]) == 4


@pytest.mark.parametrize("variant", ["source", "int4"])
def test_every_shard_is_found_exactly_once(model_of: Any, tmp_path: Path, variant: str) -> None:
    from colibri.config import EngineConfig
    from colibri.runtime import open_model

    model = model_of("olmoe", variant)
    first, second = spread(model, tmp_path)

    def opened(*others: Path) -> Any:
        names = tuple(map(str, others))
        return open_model(first, EngineConfig(model=str(first), model_dirs=names))

    container = opened(second)
    assert set(container.names()) == set(open_model(model, EngineConfig()).names())
    with pytest.raises(ContainerError, match=r"no such file|no \.safetensors files|missing"):
        opened()
    with pytest.raises(ContainerError, match="no such directory"):
        opened(second, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ContainerError, match=r"holds no .safetensors file, but --model-dirs"):
        opened(second, tmp_path / "empty")
    twice = tmp_path / "twice"
    shutil.copytree(second, twice)
    with pytest.raises(ContainerError, match=r"is in both .*second and .*twice: .*--mirror"):
        opened(second, twice)


def test_a_checkpoint_with_an_index_spread(model_of: Any, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    model = model_of("olmoe", "source")
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(model, first)
    second.mkdir()
    tensors = load_file(first / "model.safetensors")
    names = sorted(tensors)
    parts = {
        "x-00001-of-00002.safetensors": names[::2],
        "x-00002-of-00002.safetensors": names[1::2],
    }
    for (file, some), directory in zip(parts.items(), (first, second), strict=True):
        save_file({n: tensors[n] for n in some}, directory / file)
    (first / "model.safetensors").unlink()
    with LLM(first, model_dirs=(str(second),)) as llm, LLM(model) as whole:
        assert (llm.forward([1, 2, 3]) == whole.forward([1, 2, 3])).all()
    index = {n: file for file, some in parts.items() for n in some}
    (first / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    with LLM(first, model_dirs=(str(second),)) as llm:
        assert llm.forward([1, 2, 3]).shape[0] == 3
    with pytest.raises(ContainerError, match="1 of 2 shards is missing: 'x-00002"):
        LLM(first)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"mirror": ("/nowhere",)}, "/nowhere: no such directory"),
        ({"mirror": ("/",)}, "/: holds nothing of this model's experts"),
        ({"mirror": "/nowhere"}, "/nowhere: no such directory"),
        ({"disk_weights": (0.0,)}, "disk_weights"),
        ({"model_dirs": ("/nowhere",)}, "/nowhere: no such directory"),
    ],
)
def test_refusals(settings: Any, says: str) -> None:
    with pytest.raises(ColibriError, match=says):
        LLM(**settings)


def test_the_model_as_its_own_mirror() -> None:
    with pytest.raises(ConfigError, match="a directory of the model itself"):
        LLM(mirror=(str(embedded_model()),))


def test_layers_of_the_kit_are_those_that_run() -> None:
    with LLM() as llm:
        assert set(layers_of(embedded_model())) == set(llm.experts.layer_counts())
