"""Every promise is tested over every family: as downloaded at full precision, converted at the
default one, and with everything lossy that there is. Over some: as downloaded in fp8."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import golden
from colibri import LLM


@dataclass(frozen=True)
class Subject:
    path: Path
    prompt: list[int]
    settings: dict[str, Any] = field(default_factory=dict)

    def open(self, **settings: Any) -> LLM:
        return LLM(self.path, **{**self.settings, **settings})

    def logits(self, **settings: Any) -> NDArray[np.float32]:
        with self.open(**settings) as llm:
            return llm.forward(self.prompt)


IN_FP8 = ("qwen3_5_moe", "glm_moe_dsa", "glm5_next")
SETTINGS: dict[str, dict[str, Any]] = {
    "source": {"trunk_bits": "source", "embed_bits": 32},
    "int4": {},
    "fp8": {"trunk_bits": "source", "embed_bits": 32},
    "int8": {"trunk_bits": 4, "embed_bits": 4, "activations": "int8", "cache_bits": 3},
}


@pytest.fixture(
    scope="session",
    params=[
        (family, variant)
        for family in golden.FAMILIES
        for variant in SETTINGS
        if variant != "fp8" or family in IN_FP8
    ],
    ids=lambda p: f"{p[0]}-{p[1]}",
)
def subject(request: pytest.FixtureRequest, model_of: Any) -> Subject:
    family, variant = request.param
    prompt = golden.reference(family).prompt_ids
    return Subject(model_of(family, variant), prompt, SETTINGS[variant])


@pytest.fixture(scope="session")
def expected(subject: Subject) -> NDArray[np.float32]:
    """The logits of one plain run, whole prompt, everything resident."""
    return subject.logits(threads=1)
