"""Mixture-of-experts language models larger than memory, streamed from disk.

`from colibri import LLM, SamplingParams` and everything else in `__all__`: the classes a program
gives or gets, and the errors it may catch. All but the errors are imported when they are first
used, so `import colibri` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from colibri.errors import (
    Cancelled,
    CapacityError,
    ColibriError,
    ConfigError,
    ContainerError,
    DeadlineError,
    GrammarError,
    QueueFullError,
    ReadError,
    StalledError,
    TokenizerError,
    UnsupportedModelError,
)

if TYPE_CHECKING:
    from colibri.answer import Answer, Chunk, Completion, TokenLogprob
    from colibri.config import EngineConfig, EngineSettings
    from colibri.engine.request import PrefillProgress
    from colibri.engine.status import EngineStatus, RequestStatus
    from colibri.grammar import Structure
    from colibri.llm import LLM
    from colibri.llm.scores import Choice, Scores, Scoring
    from colibri.planner.forecast import Forecast, Rates
    from colibri.planner.plan import Plan
    from colibri.runtime import Stats
    from colibri.sampling import SamplingParams
    from colibri.text.chat import ChatOptions
    from colibri.text.history import Message
    from colibri.text.parts import ToolCall, ToolCallDelta

    __version__: str

__all__ = [
    "LLM",
    "Answer",
    "Cancelled",
    "CapacityError",
    "ChatOptions",
    "Choice",
    "Chunk",
    "ColibriError",
    "Completion",
    "ConfigError",
    "ContainerError",
    "DeadlineError",
    "EngineConfig",
    "EngineSettings",
    "EngineStatus",
    "Forecast",
    "GrammarError",
    "Message",
    "Plan",
    "PrefillProgress",
    "QueueFullError",
    "Rates",
    "ReadError",
    "RequestStatus",
    "SamplingParams",
    "Scores",
    "Scoring",
    "StalledError",
    "Stats",
    "Structure",
    "TokenLogprob",
    "TokenizerError",
    "ToolCall",
    "ToolCallDelta",
    "UnsupportedModelError",
    "__version__",
]

if not TYPE_CHECKING:  # a type checker sees the imports above, and any other name as a mistake
    _LAZY = {
        "colibri.answer": "Answer Chunk Completion TokenLogprob",
        "colibri.config": "EngineConfig EngineSettings",
        "colibri.engine.request": "PrefillProgress",
        "colibri.engine.status": "EngineStatus RequestStatus",
        "colibri.grammar": "Structure",
        "colibri.llm": "LLM",
        "colibri.llm.scores": "Choice Scores Scoring",
        "colibri.planner.forecast": "Forecast Rates",
        "colibri.planner.plan": "Plan",
        "colibri.runtime": "Stats",
        "colibri.sampling": "SamplingParams",
        "colibri.text.chat": "ChatOptions",
        "colibri.text.history": "Message",
        "colibri.text.parts": "ToolCall ToolCallDelta",
    }
    _HOMES = {name: home for home, names in _LAZY.items() for name in names.split()}

    def __dir__():
        return sorted(__all__)

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version

            return version("colibri-moe")
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'colibri' has no attribute {name!r}")
