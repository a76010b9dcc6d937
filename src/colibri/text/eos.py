"""The ids that end a text: the union of what config, generation_config and tokenizer name."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from colibri.errors import ConfigError
from colibri.text.special import load_special_tokens
from colibri.text.tokenizerfile import read_tokenizer_file


class HasEos(Protocol):
    @property
    def eos_ids(self) -> frozenset[int]: ...


@dataclass(frozen=True)
class FileEos:
    """Of a tokenizer that is not loaded."""

    eos_ids: frozenset[int] = frozenset()


def read_eos(directory: Path) -> FileEos:
    """What the tokenizer in a model's directory would say; TokenizerError for a damaged one."""
    path = directory / "tokenizer.json"
    if not path.exists():
        return FileEos()
    special = load_special_tokens(directory)
    if (token := special.named.get("eos_token")) is None:
        return FileEos()
    listed = (n for n, fields in special.added.items() if fields["content"] == token)
    found = next(listed, None)
    if found is None:
        found = read_tokenizer_file(path).token_id(token)
    return FileEos() if found is None else FileEos(frozenset((found,)))


def eos_ids(
    config: Mapping[str, object], generation_config: Mapping[str, object], tokenizer: HasEos | None
) -> frozenset[int]:
    """Each eos_token_id is an int, a list or null; anything else is a ConfigError that names the
    field. A config with vision may name them in its text_config alone.
    """
    own = frozenset() if tokenizer is None else tokenizer.eos_ids
    return own.union(*(ids for _, ids in _named(config, generation_config)))


def named_in(
    token: int, config: Mapping[str, object], generation_config: Mapping[str, object]
) -> str:
    """The file that has this id among those which end a text."""
    named = _named(config, generation_config)
    return next((name for name, ids in named if token in ids), "tokenizer_config.json")


def _named(
    config: Mapping[str, object], generation_config: Mapping[str, object]
) -> list[tuple[str, frozenset[int]]]:
    text = config.get("text_config")
    sources = (
        ("config.json", config),
        ("config.json: text_config", text if isinstance(text, Mapping) else {}),
        ("generation_config.json", generation_config),
    )
    return [(name, _listed(source.get("eos_token_id"), name)) for name, source in sources]


def _listed(value: object, name: str) -> frozenset[int]:
    if value is None:
        return frozenset()
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, int) or isinstance(item, bool) or item < 0:
            raise ConfigError(
                f"{name}: eos_token_id is {value!r}; a token id, a list of ids or null expected"
            )
    return frozenset(items)
