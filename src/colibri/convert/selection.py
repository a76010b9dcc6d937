"""A checkpoint held against its family's weight map: everything known, nothing missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from colibri.container.dtypes import weight_format
from colibri.container.files import shown
from colibri.container.header import TensorInfo
from colibri.container.scaled import paired
from colibri.container.weights import ExpertShape, Kind, Match, Part, WeightMap
from colibri.convert.source import LayerSource
from colibri.errors import ContainerError, UnsupportedModelError
from colibri.words import count, count_are

_LISTED = 8

Key = tuple[int | None, Part]


@dataclass(frozen=True)
class Selection:
    """The tensors that are kept."""

    trunk: Sequence[tuple[TensorInfo, Kind]]
    layers: Sequence[LayerSource]


def select(tensors: Iterable[TensorInfo], weights: WeightMap) -> Selection:
    """Sort tensors into trunk and experts; every contradiction is refused by tensor name."""
    kept = _known(tensors, weights)
    trunk = [(info, match.rule.kind) for info, match in kept if match.rule.role == "trunk"]
    experts = [(info, match) for info, match in kept if match.rule.role == "expert"]
    if not experts:
        raise ContainerError(
            "no routed experts found: no tensor matches the expert names of this model family"
        )
    _check_trunk({info.name: info for info, _ in trunk}, weights.required)
    return Selection(trunk, _layers(experts, weights.experts))


def _known(tensors: Iterable[TensorInfo], weights: WeightMap) -> list[tuple[TensorInfo, Match]]:
    whole = paired({info.name: info for info in tensors}).values()
    matched = [(info, weights.classify(info.name)) for info in whole]
    kept = [(info, m) for info, m in matched if m is not None and m.rule.role != "drop"]
    for info, _ in kept:  # first: the companions of other dtypes are unknown names
        weight_format(info)
    unknown = [shown(info.name) for info, match in matched if match is None]
    if unknown:
        raise UnsupportedModelError(
            f"{count_are(len(unknown), 'tensor')} unknown to this model family: {_list(unknown)}; "
            "converting without them could change the model's answers"
        )
    return kept


def _check_trunk(trunk: Mapping[str, TensorInfo], required: Mapping[str, tuple[int, ...]]) -> None:
    missing = [shown(name) for name in required if name not in trunk]
    if missing:
        raise ContainerError(
            f"the checkpoint lacks {count(len(missing), 'tensor')} that its config.json calls for: "
            f"{_list(missing)}"
        )
    for name, shape in required.items():
        if trunk[name].shape != tuple(shape):
            raise ContainerError(
                f"{trunk[name].file}: tensor {shown(name)} has shape {list(trunk[name].shape)}, "
                f"config.json calls for {list(shape)}"
            )


def _layers(
    found: Iterable[tuple[TensorInfo, Match]], shapes: Mapping[int, ExpertShape]
) -> list[LayerSource]:
    layers: dict[int, dict[Key, TensorInfo]] = {}
    for info, match in found:
        key = _check_place(info, match, shapes)
        assert match.layer is not None  # _check_place
        other = layers.setdefault(match.layer, {}).setdefault(key, info)
        if other is not info:
            raise ContainerError(
                f"tensors {shown(other.name)} and {shown(info.name)} hold the same weights"
            )
    missing = [str(n) for n in shapes if n not in layers and not shapes[n].draft]
    if missing:
        raise ContainerError(f"the routed experts of these layers are missing: {_list(missing)}")
    for layer, tensors in layers.items():
        _check_complete(layer, shapes[layer], tensors)
    return [LayerSource(n, shapes[n], layers[n]) for n in sorted(layers)]


def _check_place(info: TensorInfo, match: Match, shapes: Mapping[int, ExpertShape]) -> Key:
    where = f"{info.file}: tensor {shown(info.name)}"
    part, expert = match.rule.part, match.expert
    if match.layer is None or part is None:
        raise ContainerError(f"{where}: its name does not say which expert matrix it is")
    shape = shapes.get(match.layer)
    if shape is None:
        raise ContainerError(f"{where}: config.json knows no routed experts in this layer")
    if expert is not None and expert >= shape.num_experts:
        raise ContainerError(f"{where}: config.json says {shape.num_experts} experts a layer")
    expected = _expected(part, expert is None, shape)
    if info.shape != expected:
        raise ContainerError(
            f"{where} has shape {list(info.shape)}, config.json calls for {list(expected)}"
        )
    return expert, part


def _expected(part: Part, fused: bool, shape: ExpertShape) -> tuple[int, ...]:
    inner, hidden = shape.inner, shape.hidden
    matrix = {
        "gate": (inner, hidden),
        "up": (inner, hidden),
        "gate_up": (2 * inner, hidden),
        "down": (hidden, inner),
    }[part]
    return (shape.num_experts, *matrix) if fused else matrix


def _check_complete(layer: int, shape: ExpertShape, tensors: Mapping[Key, TensorInfo]) -> None:
    """Each expert has down and either gate and up or gate_up, each once."""
    missing: list[str] = []
    for expert in range(shape.num_experts):
        parts = [p for e, p in tensors if e is None]
        parts += [p for p in ("gate", "up", "down", "gate_up") if (expert, p) in tensors]
        want = ["down", "gate_up"] if "gate_up" in parts else ["down", "gate", "up"]
        missing += [f"expert {expert} {p}" for p in want if p not in parts]
        if sorted(parts) != want and not missing:
            raise ContainerError(
                f"layer {layer}, expert {expert}: its weights are there more than once "
                f"({', '.join(sorted(parts))})"
            )
    if missing:
        raise ContainerError(
            f"layer {layer}: {count_are(len(missing), 'expert matrix', 'expert matrices')} "
            f"missing: {_list(missing)}"
        )


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
