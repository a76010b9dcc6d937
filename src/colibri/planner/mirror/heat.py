"""How often each expert was asked for, from a file that somebody names."""

from __future__ import annotations

import math
from pathlib import Path

from colibri.container.files import shown
from colibri.container.jsonfile import read_json
from colibri.container.mirror import Key, Layers
from colibri.errors import ConfigError


def read_heat(path: Path, layers: Layers) -> dict[Key, float]:
    """From JSON: {"heat": {LAYER: [a number for each expert]}}; other keys are ignored.

    Raises ContainerError for a file that is no JSON, ConfigError for one that does not fit.
    """
    heat = read_json(path).get("heat")
    if not isinstance(heat, dict) or not heat:
        raise ConfigError(f'{path}: has no "heat": an object of layers with a list each')
    return {
        (number, expert): float(count)
        for name, counts in heat.items()
        for number in [_layer(path, name, layers)]
        for expert, count in enumerate(_counts(path, name, counts, layers[number].num_experts))
    }


def _layer(path: Path, name: str, layers: Layers) -> int:
    if not (name.isascii() and name.isdigit() and len(name) < 10 and int(name) in layers):
        raise ConfigError(f"{path}: heat of layer {shown(name)}: the model has no experts there")
    return int(name)


def _counts(path: Path, name: str, counts: object, experts: int) -> list[float]:
    if not isinstance(counts, list) or len(counts) != experts:
        raise ConfigError(f"{path}: heat of layer {name}: a list of {experts} numbers is needed")
    for count in counts:
        number = isinstance(count, int | float) and not isinstance(count, bool)
        if not number or not math.isfinite(count) or count < 0:
            raise ConfigError(f"{path}: heat of layer {name}: {shown(str(count))} is no count")
    return counts
