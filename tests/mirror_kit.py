"""Models and mirrors of them, for the tests of both ends."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from colibri.container.jsonfile import read_json
from colibri.container.layerexperts import LayerExperts, main_layers
from colibri.container.manifest import read_manifest
from colibri.container.mirror import Layers, model_identity
from colibri.container.reader import open_container
from colibri.container.spec import MANIFEST_NAME
from colibri.models.registry import family_for
from colibri.planner.mirror.plan import Heat, MirrorPlan, Unit
from colibri.planner.mirror.stage import Model, Wishes, stage_mirror

LARGE = 1 << 40


def layers_of(path: Path) -> Layers:
    config = read_json(path / "config.json")
    return main_layers(open_container(path, family_for(config).weights_of).layers)


def model_at(path: Path) -> Model:
    layers = layers_of(path)
    converted = (path / MANIFEST_NAME).exists()
    sha256 = {f.name: f.sha256 for f in read_manifest(path).files} if converted else {}
    return Model(path, layers, model_identity(layers), sha256)


def some_heat(layers: Layers) -> Heat:
    """No two experts alike."""
    rng = np.random.default_rng(3)
    return {(n, e): rng.random() for n, layer in layers.items() for e in range(layer.num_experts)}


def stage(
    model: Path,
    target: Path,
    unit: Unit = "records",
    budget: int | None = None,
    file_bytes: int = LARGE,
    **wishes: Any,
) -> MirrorPlan:
    """Without a reserve, in files as small as is asked for."""
    source = model_at(model)
    wanted = Wishes(unit, budget, wishes.pop("reserve_bytes", 0), file_bytes)
    heat = wishes.pop("heat", some_heat(source.layers))
    step = wishes.pop("step", lambda nbytes: None)
    return stage_mirror(source, target, heat, wanted, lambda plan: None, step)


def experts_bytes(layers: Layers) -> int:
    return sum(layer.num_experts * slot_image(layer, 0) for layer in layers.values())


def slot_image(layer: LayerExperts, expert: int) -> int:
    last = layer.reads(expert)[-1]
    return last.slot_offset + last.nbytes


def tree(directory: Path) -> dict[str, str]:
    """Every file with its hash; the receipt without the time it names."""
    return {
        name: hashlib.sha256(_timeless((directory / name).read_bytes())).hexdigest()
        for name in sorted(os.listdir(directory))
    }


def _timeless(data: bytes) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(x for x in lines if b'"created"' not in x and b'"checksum"' not in x)
