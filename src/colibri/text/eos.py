"""The ids that end a text: the union of what config, generation_config and tokenizer name."""

from collections.abc import Mapping
from typing import Protocol

from colibri.errors import ConfigError


class HasEos(Protocol):
    eos_ids: frozenset[int]


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
