"""Files that an LLM looks for itself."""

import os
from pathlib import Path

from colibri.text.tokenizer import Tokenizer


def embedded_model() -> Path:
    """The small trained model that ships with the package."""
    return Path(__file__).parents[1] / "demo"


def tokenizer_of(path: Path) -> Tokenizer | None:
    """None where the model has none: token ids still work."""
    return Tokenizer.load(path) if "tokenizer.json" in os.listdir(path) else None
