"""A tiny mixture-of-experts checkpoint, written by hand so that every byte can be made wrong."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from colibri.container.weights import ExpertShape, Rule, WeightMap

HIDDEN, INNER, EXPERTS, LAYERS, VOCABULARY = 72, 40, 3, 2, 50
_DTYPES = {"float32": "F32", "float16": "F16", "uint16": "BF16", "uint8": "U8", "int8": "I8"}

_EXPERTS = r"model\.layers\.(?P<layer>\d+)\.experts"
RULES = (
    Rule(r"model\.embed_tokens\.weight", "trunk", "embedding"),
    Rule(r"model\.norm\.weight", "trunk"),
    Rule(r"model\.layers\.(?P<layer>\d+)\.q_proj\.weight", "trunk", "linear"),
    Rule(r"model\.layers\.\d+\.rotary\.inv_freq", "drop"),
    *(
        Rule(rf"{_EXPERTS}\.(?P<expert>\d+)\.{p}\.weight", "expert", part=p)
        for p in ("gate", "up", "down")
    ),
    Rule(rf"{_EXPERTS}\.gate_up", "expert", part="gate_up"),
    Rule(rf"{_EXPERTS}\.down", "expert", part="down"),
)  # fmt: skip


def weight_map(draft: bool = False) -> WeightMap:
    shapes = {n: ExpertShape(EXPERTS, HIDDEN, INNER) for n in range(LAYERS)}
    if draft:
        shapes[LAYERS] = ExpertShape(EXPERTS, HIDDEN, INNER, draft=True)
    required = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        **{f"model.layers.{n}.q_proj.weight": (HIDDEN, HIDDEN) for n in range(LAYERS)},
    }
    return WeightMap(RULES, shapes, required)


def bf16(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def trunk_tensors(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return {
        "model.embed_tokens.weight": bf16(rng.normal(size=(VOCABULARY, HIDDEN))),
        "model.norm.weight": rng.normal(size=HIDDEN).astype(np.float32),
        **{
            f"model.layers.{n}.q_proj.weight": bf16(rng.normal(size=(HIDDEN, HIDDEN)))
            for n in range(LAYERS)
        },
    }


def expert_tensors(
    layers: int = LAYERS, dtype: str = "bf16", seed: int = 1
) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    result = {}
    for n in range(layers):
        for e in range(EXPERTS):
            for part, shape in (
                ("gate", (INNER, HIDDEN)),
                ("up", (INNER, HIDDEN)),
                ("down", (HIDDEN, INNER)),
            ):
                w = rng.normal(size=shape)
                name = f"model.layers.{n}.experts.{e}.{part}.weight"
                result[name] = bf16(w) if dtype == "bf16" else w.astype(dtype)
    return result


def fused(tensors: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The same experts as two 3-D tensors a layer."""
    result = {}
    for n in range(LAYERS):

        def get(e: int, part: str, n: int = n) -> np.ndarray[Any, Any]:
            return tensors[f"model.layers.{n}.experts.{e}.{part}.weight"]

        both = [np.concatenate([get(e, "gate"), get(e, "up")]) for e in range(EXPERTS)]
        result[f"model.layers.{n}.experts.gate_up"] = np.stack(both)
        result[f"model.layers.{n}.experts.down"] = np.stack(
            [get(e, "down") for e in range(EXPERTS)]
        )
    return result


def header_of(tensors: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    header, offset = {}, 0
    for name, a in tensors.items():
        span = [offset, offset + a.nbytes]
        header[name] = {
            "dtype": _DTYPES[a.dtype.name],
            "shape": list(a.shape),
            "data_offsets": span,
        }
        offset += a.nbytes
    return header


def write_raw(path: Path, header: Any, data: bytes = b"", align: int = 1) -> Path:
    """A safetensors file of any header, right or wrong; bytes are written as they are."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % align)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray[Any, Any]], align: int = 1) -> Path:
    data = b"".join(a.tobytes() for a in tensors.values())
    return write_raw(path, header_of(tensors), data, align)


def write_sharded(
    directory: Path, tensors: Mapping[str, np.ndarray[Any, Any]], shards: int, index: bool = True
) -> list[Path]:
    """Tensors dealt in order over numbered shards."""
    names = list(tensors)
    weight_map, paths = {}, []
    for i in range(shards):
        mine = names[i * len(names) // shards : (i + 1) * len(names) // shards]
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        paths.append(write_tensors(directory / file, {n: tensors[n] for n in mine}))
        weight_map.update(dict.fromkeys(mine, file))
    if index:
        (directory / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": weight_map})
        )
    return paths


def write_config(directory: Path, **fields: Any) -> None:
    (directory / "config.json").write_text(json.dumps({"model_type": "tiny", **fields}))
