"""colibri runs mixture-of-experts language models that are far larger than memory.

from colibri import LLM, SamplingParams

with LLM("path/to/model", ram="6GB") as llm:
    print(llm.generate("Once upon a time", SamplingParams(temperature=0)).text)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colibri.llm import LLM
    from colibri.sampling import SamplingParams

__version__ = "0.1.0"
__all__ = ["LLM", "SamplingParams", "__version__"]

_HOMES = {"LLM": "colibri.llm", "SamplingParams": "colibri.sampling"}


def __getattr__(name: str) -> object:
    # On first use: the version, the errors and `coli --help` need neither NumPy nor the kernels.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'colibri' has no attribute {name!r}")
