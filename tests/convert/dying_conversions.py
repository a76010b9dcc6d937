"""A program: conversions that die by SIGKILL before their n-th file operation, then go on.

usage: dying_conversions.py CHECKPOINT WORK plain|delete|force STRIDE

For each n a copy of the checkpoint is converted; one JSON line says what lay on the disk after the
death and after the next conversion.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from convert_kit import Model, tree

from colibri.container.jsonfile import read_json
from colibri.container.weights import WeightMap
from colibri.convert import convert
from colibri.models.registry import family_for
from dying import dies, fails, report_deaths


def die_and_resume(checkpoint: Path, work: Path, mode: str, n: int) -> dict[str, Any]:
    shutil.rmtree(work, ignore_errors=True)
    source, destination = work / "source", work / "out"
    shutil.copytree(checkpoint, source)
    if mode == "force":
        fails(lambda: run(source, destination, scheme="int8-gs64"))
    options = {"delete_source": mode == "delete", "force": mode == "force"}
    killed = dies(n, lambda: run(source, destination, **options))
    before = seen(source, destination)
    failed = fails(lambda: run(source, destination, **options))
    after = seen(source, destination)
    return {"n": n, "killed": killed, "before": before, "failed": failed, "after": after}


def run(source: Path, destination: Path, **options: Any) -> None:
    family, weights = kind(source)
    convert(source, destination, weights=weights, family=family, **options)


def kind(source: Path) -> tuple[str, WeightMap]:
    """The toy of these tests, or a real family."""
    config = read_json(source / "config.json")
    if config["model_type"] == "toy":
        return "toy", Model().weights
    family = family_for(config)
    return family.name, family.weights_of(config)


def seen(source: Path, destination: Path) -> dict[str, Any]:
    return {
        "source": sorted(p.name for p in source.glob("*.safetensors")),
        "out": tree(destination) if destination.exists() else {},
    }


if __name__ == "__main__":
    checkpoint, work, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    report_deaths(lambda n: die_and_resume(checkpoint, work, mode, n), int(sys.argv[4]))
