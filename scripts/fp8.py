"""A checkpoint's matrices in fp8, laid out as the fp8 releases are: `python -m scripts.fp8 SOURCE
TARGET`.

F8_E4M3 with a scale for each block of 128 x 128, experts one by one or fused. With --values the
float32 weights that these stand for are written instead: the reference of a run.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from colibri.container.jsonfile import read_json
from colibri.container.weights import WeightMap
from colibri.kernels.reference import fp8 as reference
from colibri.models.registry import family_for

Scales = Literal["f32", "bf16", "ue8m0"]
Array = NDArray[Any]

BLOCK = reference.SCALED
SAID = {
    "quant_method": "fp8",
    "fmt": "e4m3",
    "weight_block_size": [BLOCK, BLOCK],
    "activation_scheme": "dynamic",
}
_LARGEST = 448.0
_EXPERT = re.compile(r"(.+\.experts\.)(\d+)\.(gate|up|down)_proj\.weight")
_POSITIVE = reference.values(np.arange(127, dtype=np.uint8))
# Halfway between neighbours; a tie goes to the even code, as from 0.5 to 0 or 1.5 to 2.
_MIDDLES = (_POSITIVE[:-1].astype(np.float64) + _POSITIVE[1:]) / 2


def write(
    source: Path,
    target: Path,
    *,
    scales: Scales = "f32",
    fused: bool = False,
    values: bool = False,
    shards: int = 1,
) -> Path:
    """TARGET with SOURCE's side files and its weights in fp8; returns it. shards: of tensors in
    turn, so that weights and scales lie apart."""
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        weights_file = file.suffix == ".safetensors" or file.name.endswith(".index.json")
        if not weights_file and not file.name.startswith("."):
            shutil.copyfile(file, target / file.name)
    config = read_json(source / "config.json")
    weights = family_for(config).weights_of(config)
    tensors: dict[str, Array] = {}
    for file in sorted(source.glob("*.safetensors")):
        tensors |= load_file(file)
    stored = quantised(fuse(tensors) if fused else tensors, weights, scales)
    if values:
        stored = decoded(stored)
    else:
        (target / "config.json").write_text(json.dumps(config | {"quantization_config": SAID}))
    write_shards(target, stored, shards)
    return target


def quantised(tensors: Mapping[str, Array], weights: WeightMap, scales: Scales) -> dict[str, Array]:
    """Experts and the trunk's matrices, but the head, in codes (uint8) beside their scales."""
    out: dict[str, Array] = {}
    for name, w in tensors.items():
        match = weights.classify(name)
        linear = match is not None and match.rule.kind in ("linear", "absorbed")
        expert = match is not None and match.rule.role == "expert"
        if name == "lm_head.weight" or not (linear or expert):
            out[name] = w
            continue
        matrices = [quantise(m, scales) for m in w.reshape(-1, *w.shape[-2:])]
        codes, own = (np.stack(parts) for parts in zip(*matrices, strict=True))
        out[name] = codes.reshape(w.shape)
        out[name + "_scale_inv"] = own.reshape(*w.shape[:-2], *own.shape[1:])
    return out


def quantise(w: Array, scales: Scales) -> tuple[Array, Array]:
    """float32 [rows, cols] -> codes [rows, cols] and a scale a block."""
    rows, cols = w.shape
    down, across = -(-rows // BLOCK), -(-cols // BLOCK)
    padded = np.zeros((down * BLOCK, across * BLOCK), np.float32)
    padded[:rows, :cols] = w
    largest = np.abs(padded.reshape(down, BLOCK, across, BLOCK)).max(axis=(1, 3))
    stored = _stored(np.where(largest == 0, 1, largest / _LARGEST), scales)
    wide = reference.scale_values(stored)[
        np.arange(rows)[:, None] // BLOCK, np.arange(cols) // BLOCK
    ]
    return encode(w / wide), stored


def encode(x: Array) -> NDArray[np.uint8]:
    """The nearest codes; beyond 448 the largest."""
    size = np.abs(x).astype(np.float64)
    code = np.searchsorted(_MIDDLES, size, side="left")
    tie = (code < len(_MIDDLES)) & (size == _MIDDLES[np.minimum(code, len(_MIDDLES) - 1)])
    code += tie & (code % 2 == 1)
    return (code | np.signbit(x) << 7).astype(np.uint8)


def _stored(scale: Array, scales: Scales) -> Array:
    if scales == "ue8m0":
        return (np.ceil(np.log2(scale)) + 127).astype(np.uint8)
    wide = scale.astype(np.float32)
    return wide if scales == "f32" else (wide.view(np.uint32) + 0xFFFF >> 16).astype(np.uint16)


def decoded(stored: Mapping[str, Array]) -> dict[str, Array]:
    """Codes and scales as the float32 that they stand for."""
    out = {}
    for name, w in stored.items():
        scales = stored.get(name + "_scale_inv")
        if scales is not None:
            pairs = zip(
                w.reshape(-1, *w.shape[-2:]), scales.reshape(-1, *scales.shape[-2:]), strict=True
            )
            out[name] = np.stack([reference.decode(*pair) for pair in pairs]).reshape(w.shape)
        elif not name.endswith("_scale_inv"):
            out[name] = w
    return out


def fuse(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Experts one by one as [experts, rows, cols], the rows of gate before those of up."""
    out: dict[str, Array] = {}
    found: dict[str, dict[tuple[int, str], Array]] = {}
    for name, w in tensors.items():
        if match := _EXPERT.fullmatch(name):
            found.setdefault(match[1], {})[int(match[2]), match[3]] = w
        else:
            out[name] = w
    for prefix, parts in found.items():
        count = 1 + max(expert for expert, _ in parts)
        both = [np.concatenate([parts[e, "gate"], parts[e, "up"]]) for e in range(count)]
        out[prefix + "gate_up_proj"] = np.stack(both)
        out[prefix + "down_proj"] = np.stack([parts[e, "down"] for e in range(count)])
    return out


def write_shards(target: Path, tensors: Mapping[str, Array], shards: int) -> None:
    names = sorted(tensors)
    for i in range(shards):
        name = f"model-{i + 1:05}-of-{shards:05}.safetensors" if shards > 1 else "model.safetensors"
        _write_file(target / name, {n: tensors[n] for n in names[i::shards]}, tensors)


def _write_file(path: Path, part: Mapping[str, Array], tensors: Mapping[str, Array]) -> None:
    """As safetensors does: wide elements first, then by name."""
    header: dict[str, Any] = {}
    data = b""
    for name in sorted(part, key=lambda n: (-part[n].itemsize, n)):
        w, begin = part[name], len(data)
        data += w.tobytes()
        dtype = _dtype(name, w, tensors)
        header[name] = {"dtype": dtype, "shape": w.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def _dtype(name: str, w: Array, tensors: Mapping[str, Array]) -> str:
    if w.dtype == np.uint8:
        return "F8_E4M3" if name + "_scale_inv" in tensors else "F8_E8M0"
    return {"float32": "F32", "float16": "F16", "uint16": "BF16"}[w.dtype.name]


def main() -> None:
    parser = argparse.ArgumentParser(description="A checkpoint in fp8 with block scales.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--scales", choices=get_args(Scales), default="f32")
    parser.add_argument("--fused", action="store_true", help="the experts of a layer in one tensor")
    parser.add_argument("--values", action="store_true", help="the float32 weights these stand for")
    parser.add_argument("--shards", type=int, default=1)
    arguments = vars(parser.parse_args())
    write(arguments.pop("source"), arguments.pop("target"), **arguments)


if __name__ == "__main__":
    main()
