"""Prompts with topics: those that ship with the program, or a file of the same form."""

from __future__ import annotations

from pathlib import Path

import msgspec

from colibri.container.files import shown
from colibri.container.jsonfile import read_json
from colibri.errors import ConfigError
from colibri.words import count

VERSION = 1
LEAST_TOPICS, MOST_TOPICS = 4, 64  # three dimensions are drawn
LEAST_PROMPTS = 2
_MOST_NAME = 40
_MOST_BYTES = 16 << 20


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    prompts: list[str]


class Topics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topics: list[Topic]
    version: int = VERSION


def own_prompts() -> Path:
    return Path(__file__).with_name("topics.json")


def read_topics(path: Path) -> list[Topic]:
    """Raises ConfigError, ContainerError."""
    try:
        found = msgspec.convert(read_json(path, _MOST_BYTES), Topics)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{path}: {error}; prompts are "
            '{"version": 1, "topics": [{"name": "law", "prompts": ["...", ...]}, ...]}'
        ) from None
    _check(found, path)
    return found.topics


def _check(found: Topics, path: Path) -> None:
    names = [topic.name for topic in found.topics]
    if found.version != VERSION:
        raise ConfigError(f"{path}: prompts of version {found.version}; this one reads {VERSION}")
    if not LEAST_TOPICS <= len(names) <= MOST_TOPICS:
        raise ConfigError(
            f"{path}: {count(len(names), 'topic')}; an atlas is drawn of {LEAST_TOPICS} to "
            f"{MOST_TOPICS}"
        )
    for topic in found.topics:
        if not (0 < len(topic.name) <= _MOST_NAME and topic.name.isprintable()):
            raise ConfigError(f"{path}: {shown(topic.name)} is no name of a topic")
        if len(topic.prompts) < LEAST_PROMPTS or not all(p.strip() for p in topic.prompts):
            raise ConfigError(
                f"{path}: topic {topic.name!a} has {count(len(topic.prompts), 'prompt')}; give "
                f"{LEAST_PROMPTS} or more, none of them empty"
            )
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: two topics have the same name")
