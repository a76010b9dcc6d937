"""128k positions of the frontier models, planned from their index alone: what a sequence takes is
what is published of their state, and nothing else grows with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from colibri.config import EngineConfig
from colibri.container.reader import Container
from colibri.lab.shapes import find_shape
from colibri.models.registry import family_for
from colibri.planner.assess import Wishes, assess, open_outline
from colibri.planner.budget import Machine
from colibri.planner.document import Document

pytestmark = pytest.mark.alone

SHORT, LONG = 8192, 131072
MACHINE = Machine(total_bytes=64 * 10**9, available_bytes=62 * 10**9, rss_bytes=60_000_000)
SHAPES = {
    "glm-5.2": "glm-5.2:78",
    "glm-5.3-flash": "glm-5.3-flash:45",
    "qwen3.6": "qwen3.6-35b-a3b",
}
# Values a position: a latent of 512 + 64 in 78 layers and an indexer's key of 128 in 21 of them; a
# latent of 512 and a key of 128 for 4 positions in 11; two heads of 256, key and value, in 10.
POSITION = {
    "glm-5.2": 78 * (512 + 64) + 21 * 128,
    "glm-5.3-flash": 11 * (512 + 128 // 4),
    "qwen3.6": 10 * 2 * 2 * 256,
}
# Values a sequence: in 34 layers 64 matrices and three rows of three convolutions, and keys and
# gates of an open pool and one before it in 11; in 30 layers 32 matrices and three rows of 8192.
SEQUENCE = {
    "glm-5.2": 0,
    "glm-5.3-flash": 34 * (64 * 128 * 128 + 3 * 3 * 8192) + 11 * 2 * 7 * 128,
    "qwen3.6": 30 * (32 * 128 * 128 + 3 * 8192),
}


@pytest.fixture(scope="module", params=SHAPES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(name: str, tmp_path_factory: pytest.TempPathFactory) -> Container:
    """config.json and an index; no weights."""
    folder = tmp_path_factory.mktemp(name)
    config: dict[str, Any] = dict(find_shape(SHAPES[name]).config)
    family = family_for(config)
    weights = family.weights_of(config)
    root = next(iter(weights.required)).split(".embed_tokens")[0].split(".layers")[0]
    experts = (
        f"{root}.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight"
        for layer, shape in weights.experts.items()
        for expert in range(shape.num_experts)
        for part in ("gate", "up", "down")
    )
    index = dict.fromkeys([*weights.required, *experts], "model-00001-of-00001.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return open_outline(folder)


def planned(model: Container, context: int, **settings: Any) -> Document:
    config = EngineConfig(ram="60GB", trunk_bits=4, context=context, **settings)
    return assess(model, config, Wishes(disk=3.5e9, memory=40e9))


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colibri.planner.assess.this_machine", lambda: MACHINE)


def state_bytes(name: str, positions: int) -> int:
    """fp32; what has no positions twice, for a step may be taken back."""
    return 4 * (positions * POSITION[name] + 2 * SEQUENCE[name])


@pytest.mark.parametrize("positions", [SHORT, LONG])
def test_the_state_is_what_is_published(name: str, model: Container, positions: int) -> None:
    items = {item.name: item.bytes for item in planned(model, positions).items}
    assert items["state"] == state_bytes(name, positions)


def test_128k_fit_and_nothing_else_grows(name: str, model: Container) -> None:
    """With the rest held fast, a longer context takes its state's bytes and no others."""
    fixed: dict[str, Any] = {"cache_experts": 8, "prefill_chunk": 512}
    short, long = (planned(model, positions, **fixed) for positions in (SHORT, LONG))
    assert long.fits
    assert long.notes == []
    grown = state_bytes(name, LONG) - state_bytes(name, SHORT)
    assert long.peak_bytes - short.peak_bytes == grown


def test_what_is_left_goes_to_experts(name: str, model: Container) -> None:
    """60 GB hold 128k positions and more than one token's experts of every layer."""
    document = planned(model, LONG)
    assert document.fits
    slots = [layer.slots for layer in document.layers if layer.slots]
    assert min(slots) > document.experts_per_token
    assert document.peak_bytes <= 60_000_000_000


def test_a_budget_below_the_state_is_refused_with_what_would_do(
    name: str, model: Container
) -> None:
    few = state_bytes(name, LONG) // 10**6
    document = assess(
        model,
        EngineConfig(ram=f"{few}MB", trunk_bits=4, context=LONG),
        Wishes(disk=3.5e9, memory=40e9),
    )
    assert not document.fits
    assert document.least_bytes > state_bytes(name, LONG)
