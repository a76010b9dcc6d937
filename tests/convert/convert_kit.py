"""A toy family and its checkpoints in every form the converter must take."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from colibri.container.weights import ExpertShape, Rule, WeightMap

LAYER = r"model\.layers\.(?P<layer>\d+)\."
EXPERT = LAYER + r"mlp\.experts\."
DRAFT_LAYER = 3
VOCAB, HEADS = 50, 24

RULES = (
    Rule(r"model\.embed_tokens\.weight", "trunk", "embedding"),
    Rule(r"lm_head\.weight", "trunk", "linear"),
    Rule(LAYER + r"self_attn\.[qo]_proj\.weight", "trunk", "linear"),
    Rule(LAYER + r"self_attn\.kv_b_proj\.weight", "trunk", "absorbed"),
    Rule(LAYER + r"self_attn\.rotary_emb\.inv_freq", "drop"),
    Rule(LAYER + r"(input_layernorm|mlp\.gate)\.(weight|bias)", "trunk"),
    Rule(r"model\.norm\.weight", "trunk"),
    Rule(EXPERT + r"(?P<expert>\d+)\.(gate_proj|w1)\.weight", "expert", part="gate"),
    Rule(EXPERT + r"(?P<expert>\d+)\.up_proj\.weight", "expert", part="up"),
    Rule(EXPERT + r"(?P<expert>\d+)\.down_proj\.weight", "expert", part="down"),
    Rule(EXPERT + r"gate_up_proj", "expert", part="gate_up"),
    Rule(EXPERT + r"down_proj", "expert", part="down"),
)

Tensors = dict[str, np.ndarray[Any, Any]]


class Model:
    """Shapes of a toy; the defaults fit neither rows of 16 nor inputs of 64, nor even groups."""

    def __init__(
        self, hidden: int = 136, inner: int = 40, experts: int = 3, draft: bool = True
    ) -> None:
        self.hidden, self.inner, self.experts, self.draft = hidden, inner, experts, draft
        self.layers = [1, 2, DRAFT_LAYER] if draft else [1, 2]

    @property
    def weights(self) -> WeightMap:
        shapes = {
            n: ExpertShape(self.experts, self.hidden, self.inner, n == DRAFT_LAYER)
            for n in (1, 2, DRAFT_LAYER)
        }
        required = {
            "model.embed_tokens.weight": (VOCAB, self.hidden),
            "model.norm.weight": (self.hidden,),
            **{f"model.layers.{n}.mlp.gate.weight": (self.experts, self.hidden) for n in (1, 2)},
        }
        return WeightMap(RULES, shapes, required)

    def tensors(self, seed: int = 0, dtype: str = "bf16") -> Tensors:
        """Trunk and per-expert tensors; the router's bias stays float32 in every checkpoint."""
        rng = np.random.default_rng(seed)
        h, i = self.hidden, self.inner

        def make(*shape: int) -> np.ndarray[Any, Any]:
            values = (rng.standard_normal(shape) * 0.05).astype(np.float32)
            return _cast(values, dtype)

        out = {"model.embed_tokens.weight": make(VOCAB, h), "model.norm.weight": make(h)}
        out["lm_head.weight"] = make(VOCAB, h)
        for n in range(max(self.layers) + 1):
            at = f"model.layers.{n}."
            out[at + "self_attn.q_proj.weight"] = make(HEADS, h)
            out[at + "self_attn.o_proj.weight"] = make(h, HEADS)
            out[at + "self_attn.kv_b_proj.weight"] = make(HEADS, h)
            out[at + "self_attn.rotary_emb.inv_freq"] = np.full(3, np.nan, np.float32)
            out[at + "input_layernorm.weight"] = make(h)
            if n in self.layers:
                out[at + "mlp.gate.weight"] = make(self.experts, h)
                out[at + "mlp.gate.bias"] = np.arange(self.experts, dtype=np.float32)
                for e in range(self.experts):
                    out[at + f"mlp.experts.{e}.gate_proj.weight"] = make(i, h)
                    out[at + f"mlp.experts.{e}.up_proj.weight"] = make(i, h)
                    out[at + f"mlp.experts.{e}.down_proj.weight"] = make(h, i)
        return out

    def fused(self, tensors: Tensors) -> Tensors:
        """The same weights with all experts of a layer in two 3-D tensors."""
        out = {n: t for n, t in tensors.items() if ".experts." not in n}
        for n in self.layers:
            at = f"model.layers.{n}.mlp.experts."

            def of(part: str, at: str = at) -> list[np.ndarray[Any, Any]]:
                return [tensors[f"{at}{e}.{part}_proj.weight"] for e in range(self.experts)]

            pairs = zip(of("gate"), of("up"), strict=True)
            out[at + "gate_up_proj"] = np.stack([np.concatenate(p) for p in pairs])
            out[at + "down_proj"] = np.stack(of("down"))
        return out


def write_checkpoint(
    directory: Path, tensors: Tensors, shards: int = 1, index: bool = False, side: bool = True
) -> Path:
    """Tensors dealt out in turn, so that every layer is spread over the shards."""
    directory.mkdir(parents=True, exist_ok=True)
    names = list(tensors)
    files = {
        f"model-{k + 1:05}-of-{shards:05}.safetensors" if shards > 1 else "model.safetensors": {
            n: tensors[n] for n in names[k::shards]
        }
        for k in range(shards)
    }
    for file, part in files.items():
        write_safetensors(directory / file, part)
    if index:
        places = {n: file for file, part in files.items() for n in part}
        text = json.dumps({"metadata": {}, "weight_map": places})
        (directory / "model.safetensors.index.json").write_text(text)
    if side:
        write_side_files(directory)
    return directory


def write_side_files(directory: Path) -> None:
    for name, text in {
        "config.json": '{"model_type": "toy"}',
        "generation_config.json": "{}",
        "tokenizer.json": '{"version": "1.0", "model": "né"}',
        "tokenizer_config.json": '{"chat_template": "{{ messages }}"}',
        "LICENSE": "free",
    }.items():
        (directory / name).write_text(text, encoding="utf-8")


def write_safetensors(path: Path, tensors: Tensors) -> None:
    names = {"uint16": "BF16", "float16": "F16", "float32": "F32", "uint8": "U8", "int64": "I64"}
    header: dict[str, Any] = {}
    offset = 0
    for name, t in tensors.items():
        span = [offset, offset + t.nbytes]
        header[name] = {"dtype": names[t.dtype.name], "shape": list(t.shape), "data_offsets": span}
        offset += t.nbytes
    text = json.dumps(header).encode()
    data = b"".join(t.tobytes() for t in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def dying(source: Path, work: Path, mode: str, stride: int) -> list[dict[str, Any]]:
    """What dying_conversions.py says after each death and each resumption."""
    driver = Path(__file__).with_name("dying_conversions.py")
    command = [sys.executable, str(driver), str(source), str(work), mode, str(stride)]
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": tests}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def fast_directory(otherwise: Path) -> Iterator[Path]:
    """In memory where the system has such a place: hundreds of renames are slow on a disk."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else otherwise
    with tempfile.TemporaryDirectory(prefix="coli-test-", dir=parent) as directory:
        yield Path(directory) / "work"


def tree(directory: Path) -> dict[str, str]:
    """Every file with its hash."""
    return {
        str(p.relative_to(directory)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(directory.rglob("*"))
        if p.is_file()
    }


def _cast(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    if dtype == "bf16":  # cut, not rounded: any bf16 will do
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype({"f16": np.float16, "f32": np.float32}[dtype])
