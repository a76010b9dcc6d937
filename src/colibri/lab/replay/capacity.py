"""Capacities and pins as people write them, in slots a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from colibri.config.sizes import LARGEST_BYTES, parse_flag
from colibri.errors import ConfigError
from colibri.routing.trace import LayerFacts

FORMS = "slots a layer (12), a share of the experts (25%, 0.25), times the experts a token (1.5x)"
Kind = Literal["slots", "share", "ratio", "bytes"]


@dataclass(frozen=True)
class Capacity:
    text: str
    kind: Kind
    value: float

    def slots(self, layers: Sequence[LayerFacts]) -> Mapping[int, int]:
        """Of each layer: at least one, at most its experts."""
        return {n.layer: max(1, min(n.experts, round(self._of(n, layers)))) for n in layers}

    def _of(self, facts: LayerFacts, layers: Sequence[LayerFacts]) -> float:
        if self.kind == "bytes":
            return self.value // sum(n.slot_bytes for n in layers)
        scale = {"slots": 1, "share": facts.experts, "ratio": facts.k}[self.kind]
        return self.value * scale


def parse_capacities(text: str, layers: Sequence[LayerFacts]) -> list[Capacity]:
    """Comma-separated. Raises ConfigError."""
    return [_parse(part.strip(), layers) for part in text.split(",")]


def _parse(text: str, layers: Sequence[LayerFacts]) -> Capacity:
    if text[-1:].lower() == "b" or text[-2:].lower() == "ib":
        if not all(n.slot_bytes for n in layers):
            raise ConfigError(f"--capacity {text}: this trace does not say how large an expert is")
        return Capacity(text, "bytes", parse_flag("--capacity", text, total=LARGEST_BYTES))
    for suffix, kind, scale in (("%", "share", 0.01), ("x", "ratio", 1.0)):
        if text.endswith(suffix):
            return Capacity(text, kind, _number(text, text[:-1]) * scale)  # type: ignore[arg-type]
    return Capacity(text, "share" if "." in text else "slots", _number(text, text))


def _number(text: str, digits: str) -> float:
    try:
        value = float(digits)
    except ValueError:
        value = 0.0
    if not 0 < value <= 100_000:
        raise ConfigError(f"--capacity {text!r}: give {FORMS}, or bytes (8GB)")
    return value


def pins_by_layer(
    text: str, counts: Mapping[int, Mapping[int, int]], layers: Sequence[LayerFacts]
) -> dict[int, list[int]]:
    """The most used experts, hottest first: so many a layer ("4"), or over all layers as many as
    their slots have room for ("2GB"). counts: by layer and expert. Raises ConfigError."""
    size = {n.layer: n.slot_bytes for n in layers}
    ranked = sorted(
        (-count, layer, expert) for layer, n in counts.items() for expert, count in n.items()
    )
    pins: dict[int, list[int]] = {n.layer: [] for n in layers}
    if text.isdecimal() and len(text) < 6:
        for _, layer, expert in ranked:
            if len(pins[layer]) < int(text):
                pins[layer].append(expert)
        return pins
    room = parse_flag("--pin", text, total=LARGEST_BYTES)
    for _, layer, expert in ranked:
        if size[layer] <= room:
            room -= size[layer]
            pins[layer].append(expert)
    return pins
