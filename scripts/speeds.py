"""README's table of models, memory and speed: `python -m scripts.speeds`.

The models are headers only, written from the published sizes that `coli bench --shape` has; the
numbers are those of `coli plan --json`. With a directory as argument the headers are left there,
for plans of one's own.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from colibri.container.weights import WeightMap
from colibri.lab.shapes import find_shape
from colibri.models.registry import family_for

README = Path(__file__).parents[1] / "README.md"
MODELS = {
    "olmoe-1b-7b": "OLMoE-1B-7B",
    "qwen3-30b-a3b": "Qwen3-30B-A3B",
    "qwen3.6-35b-a3b": "Qwen3.6-35B-A3B",
    "mixtral-8x7b": "Mixtral-8x7B",
    "glm-5.3-flash:45": "GLM-5.3-Flash",
    "glm-5.2:78": "GLM-5.2",
}
RAM = ("6GB", "12GB", "24GB", "48GB")
MACHINE = ("--disk", "3.5GB/s", "--memory", "40GB/s")
_PART = re.compile(r"(<!-- speeds: [^>]*-->\n).*?(<!-- end -->)", re.DOTALL)
_BLOCKS = ("mlp", "block_sparse_moe")
_PREFIXES = ("model.", "model.language_model.")
_MATRICES = (("gate_proj", "up_proj", "down_proj"), ("w1", "w2", "w3"))


def write_headers(shape: str, folder: Path) -> Path:
    """config.json and an index that names every tensor: all that a plan needs."""
    config = find_shape(shape).config
    weights = family_for(config).weights_of(config)
    names = [*weights.required, *expert_names(weights)]
    index = {"weight_map": dict.fromkeys(names, "model.safetensors")}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def expert_names(weights: WeightMap) -> Iterator[str]:
    """Of every matrix of every routed expert."""
    for layer, shape in weights.experts.items():
        pattern, matrices = _naming(weights, layer)
        for expert, matrix in itertools.product(range(shape.num_experts), matrices):
            yield pattern.format(layer=layer, expert=expert, matrix=matrix)


def _naming(weights: WeightMap, layer: int) -> tuple[str, tuple[str, str, str]]:
    """How the family names experts: of all forms in use the one that it knows."""
    for prefix, block, matrices in itertools.product(_PREFIXES, _BLOCKS, _MATRICES):
        pattern = f"{prefix}layers.{{layer}}.{block}.experts.{{expert}}.{{matrix}}.weight"
        match = weights.classify(pattern.format(layer=layer, expert=0, matrix=matrices[0]))
        if match is not None and match.expert == 0:
            return pattern, matrices
    raise ValueError(f"layer {layer}: no known name of experts")


def plan(folder: Path, ram: str) -> dict[str, Any]:
    start = "from colibri.cli import main; main()"
    command = [sys.executable, "-c", start, "plan", str(folder), "--json"]
    done = subprocess.run([*command, "--ram", ram, *MACHINE], capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def row(shape: str, folder: Path) -> str:
    """The model's size with 4-bit experts, the least memory, and tok/s for each budget."""
    write_headers(shape, folder)
    plans = [plan(folder, ram) for ram in RAM]
    experts = sum(layer["experts"] * layer["slot_bytes"] for layer in plans[0]["layers"])
    items = {item["name"]: item["bytes"] for item in plans[0]["items"]}
    whole = experts + sum(items.get(name, 0) for name in ("trunk", "head", "embedding"))
    least = min(p["least_bytes"] for p in plans)
    cells = [MODELS[shape], f"{whole / 1e9:.0f} GB", f"{least / 1e9:.1f} GB", *map(_cell, plans)]
    return f"| {' | '.join(cells)} |"


def _cell(plan: dict[str, Any]) -> str:
    if not plan["fits"]:
        return "-"
    speed = plan["forecast"]["tokens_per_second"]
    return f"{speed:.1f}" if speed < 10 else f"{speed:.0f}"


def table(root: Path) -> str:
    head = f"| model | converted | at least | {' | '.join(f'`--ram {ram}`' for ram in RAM)} |"
    rows = [row(shape, root / shape.partition(":")[0]) for shape in MODELS]
    return "\n".join([head, "|---" * (3 + len(RAM)) + "|", *rows]) + "\n"


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        text = table(Path(arguments[0] if arguments else scratch))
    page = README.read_text("utf-8")
    README.write_text(_PART.sub(lambda part: part[1] + text + part[2], page), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
