"""Files that an LLM looks for itself."""

import os
from pathlib import Path

from colibri.container.files import has_file
from colibri.container.hubcache import located
from colibri.text.tokenizer import Tokenizer


def embedded_model() -> Path:
    """The small trained model that ships with the package."""
    return Path(__file__).parents[1] / "demo"


def is_embedded(path: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(embedded_model())


def only_chats(path: Path) -> bool:
    """Whether a model learnt to answer and not to go on with a text. That is known of the embedded
    one alone."""
    return is_embedded(path)


def model_directory(named: str | None) -> Path:
    """Of a model as it was named: a directory, ORG/NAME of the hub's cache or the embedded one."""
    return embedded_model() if named is None else located(named, os.environ)


def tokenizer_of(path: Path) -> Tokenizer | None:
    """None where the model has none: token ids still work."""
    return Tokenizer.load(path) if has_file(path, "tokenizer.json") else None
