"""What a file is that is no safetensors file: usually a download that went wrong."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from colibri.container.files import shown
from colibri.container.jsonfile import read_json
from colibri.errors import UnsupportedModelError

_FOREIGN = {
    ".gguf": "GGUF",
    ".bin": "PyTorch's",
    ".pt": "PyTorch's",
    ".pth": "PyTorch's",
}
_ADAPTER = "adapter_config.json"
_MAGIC = (
    (b"version https://git-lfs", "a Git LFS pointer; fetch the file itself (git lfs pull)"),
    (b"PK\x03\x04", "a zip archive, perhaps a PyTorch checkpoint; safetensors files are needed"),
    (b"\x80\x02", "a Python pickle, perhaps an old PyTorch checkpoint"),
    (b"GGUF", "a GGUF file"),
    (b"\x1f\x8b", "gzip data; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd data; unpack it first"),
    (b"\xfd7zXZ", "xz data; unpack it first"),
    (b"BZh", "bzip2 data; unpack it first"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x7fELF", "a program"),
)


def looks_like(head: bytes, size: int) -> str:
    """Names the content by its first bytes (up to 512 of `size`)."""
    if size == 0:
        return "it is empty; download it again"
    if not head.strip(b"\0"):
        return "it begins with zeros, like a download that never arrived"
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return f"it is {name}"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"<":
        return "it is an HTML or XML page, perhaps a server's error message"
    if text[:1] == b"{":
        return f"it is JSON text: {_excerpt(text)}"
    if size < 8:
        return f"it has only {size} bytes"
    if _is_text(text):
        return f"it is text: {_excerpt(text)}"
    return "its first bytes are no safetensors header"


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
    """What was trained beside a model (LoRA) is only the difference to it."""
    names = set(names)
    weights = [n for n in names if n.endswith(".safetensors") and not n.startswith("adapter_")]
    if _ADAPTER not in names or weights:
        return
    base = read_json(directory / _ADAPTER).get("base_model_name_or_path")
    of = f" of {shown(base)}" if isinstance(base, str) and base else ""
    raise UnsupportedModelError(
        f"{directory}: a LoRA adapter{of}, not a model; merge it into its base model (in PEFT: "
        "merge_and_unload(), then save_pretrained()) and give the merged model's directory"
    )


def _is_text(data: bytes) -> bool:
    return (
        all(b in b"\t\r\n" or b >= 32 for b in data)
        and data.decode("utf-8", "replace").count("\ufffd") <= 1
    )


def _excerpt(data: bytes) -> str:
    return ascii(data[:60].decode("utf-8", "replace"))
