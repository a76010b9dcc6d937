"""Mixture-of-experts language models larger than memory, streamed from disk.

`from colibri import LLM, SamplingParams, Structure`. All are imported on use, so `import colibri`
is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colibri.grammar import Structure
    from colibri.llm import LLM
    from colibri.sampling import SamplingParams

    __version__: str

__all__ = ["LLM", "SamplingParams", "Structure", "__version__"]

_HOMES = {
    "LLM": "colibri.llm",
    "SamplingParams": "colibri.sampling",
    "Structure": "colibri.grammar",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("colibri-moe")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'colibri' has no attribute {name!r}")
