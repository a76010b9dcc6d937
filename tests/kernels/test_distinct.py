"""Distinct ids, and what they do not cost."""

import subprocess
import sys

import numpy as np
import pytest

from colibri.kernels.distinct import distinct

ASKED = """
import sys
from colibri import LLM, SamplingParams
with LLM(ram="400MB", context=256, usage="off") as llm:
    for penalty in (1.0, 1.2):
        params = SamplingParams(max_tokens=4, repetition_penalty=penalty, frequency_penalty=0.5)
        llm.generate("Once upon", params)
print("numpy.ma" in sys.modules)
"""


@pytest.mark.parametrize("shape", [(0,), (1,), (40,), (8, 6), (2, 3, 4)])
def test_ascending_and_each_once(shape: tuple[int, ...]) -> None:
    ids = np.random.default_rng(0).integers(-5, 9, shape, np.int32)
    found = distinct(ids)
    assert found.dtype == np.int32
    assert found.tolist() == sorted({*ids.ravel().tolist()})


def test_nothing_large_is_imported_once_the_memory_is_planned() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
