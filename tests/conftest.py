"""Models for the tests: the tiny checkpoints as downloaded and converted, made once a run."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import golden
from colibri.container.jsonfile import read_json
from colibri.convert.loop import convert
from colibri.models.registry import family_for

os.environ["COLI_USAGE"] = "off"  # a test neither leaves usage behind nor depends on it

ModelOf = Callable[[str, str], Path]


@pytest.fixture(scope="session")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> ModelOf:
    """model_of(family, variant): "source" is the checkpoint itself, "int4" and "int8" are
    conversions of it."""

    @cache
    def build(family: str, variant: str) -> Path:
        source = golden.tiny(family)
        if variant == "source":
            return source
        config = read_json(source / "config.json")
        target = tmp_path_factory.mktemp("models") / f"{family}-{variant}"
        convert(
            source,
            target,
            weights=family_for(config).weights_of(config),
            family=family,
            scheme="int4-gs64" if variant == "int4" else "int8-gs64",
        )
        return target

    return build
