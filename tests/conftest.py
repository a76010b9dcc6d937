"""Models for the tests: the tiny checkpoints as downloaded and converted, made once a run."""

import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import golden
from colibri.container.jsonfile import read_json
from colibri.convert.loop import convert
from colibri.models.registry import family_for
from scripts import fp8

os.environ["COLI_USAGE"] = "off"  # a test neither leaves usage behind nor depends on it
# Shells start what runs in the background with Ctrl-C ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ModelOf = Callable[[str, str], Path]


@pytest.fixture(scope="session")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> ModelOf:
    """model_of(family, variant): "source" is the checkpoint itself, "int4" and "int8" are
    conversions of it; "fp8" is one in fp8 with fused experts and the scales in files of their
    own."""

    @cache
    def build(family: str, variant: str) -> Path:
        source = golden.tiny(family)
        if variant == "source":
            return source
        target = tmp_path_factory.mktemp("models") / f"{family}-{variant}"
        if variant == "fp8":
            return fp8.write(source, target, fused=True, shards=2)
        config = read_json(source / "config.json")
        convert(
            source,
            target,
            weights=family_for(config).weights_of(config),
            family=family,
            scheme="int4-gs64" if variant == "int4" else "int8-gs64",
        )
        return target

    return build
