"""Directories that hold something else than a model in safetensors files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from colibri.container.files import list_names, shown
from colibri.container.jsonfile import read_json
from colibri.errors import ContainerError, UnsupportedModelError

_FOREIGN = {
    ".gguf": "GGUF",
    ".bin": "PyTorch's",
    ".pt": "PyTorch's",
    ".pth": "PyTorch's",
}
_ADAPTER = "adapter_config.json"


def check_is_model(directory: Path) -> None:
    """Raises for anything but a directory with a config.json, and says what it is instead."""
    if directory.suffix.lower() == ".gguf":
        refuse_foreign(directory.parent, [directory.name])
    names = list_names(directory)
    if "config.json" not in names:
        refuse_foreign(directory, names)
        raise ContainerError(
            f"{directory}: holds no config.json, so it is not the directory of a model"
        )


def refuse_foreign(directory: Path, names: Iterable[str]) -> None:
    """Where no model is: name the kind of weights that are there instead."""
    names = list(names)
    refuse_adapter(directory, names)
    for name in names:
        kind = _FOREIGN.get(Path(name).suffix.lower())
        if kind is not None:
            raise UnsupportedModelError(
                f"{directory / name}: {kind} format is not supported; "
                "get the model as safetensors files with its config.json"
            )


def refuse_adapter(directory: Path, names: Iterable[str]) -> None:
    """What was trained beside a model (LoRA and its kind) is only the difference to it."""
    names = set(names)
    weights = [n for n in names if n.endswith(".safetensors") and not n.startswith("adapter_")]
    if _ADAPTER not in names or weights:
        return
    base = read_json(directory / _ADAPTER).get("base_model_name_or_path")
    of = f" of {shown(base)}" if isinstance(base, str) and base else ""
    raise UnsupportedModelError(
        f"{directory}: an adapter{of} (LoRA or the like), not a model; merge it into its base "
        "model (in PEFT: merge_and_unload(), then save_pretrained()) and give the merged model's "
        "directory"
    )
