"""Staging that is killed before any of its file operations: nothing lost, and it goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from colibri.container.mirror import RECORDS_SUFFIX
from colibri.container.receipt import RECEIPT_NAME

TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_anywhere(model_of: Any, tmp_path: Path, stride: int) -> None:
    program = Path(__file__).with_name("dying_stages.py")
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    result = subprocess.run(
        [sys.executable, program, model_of("olmoe", "int4"), tmp_path, str(stride)],
        env=os.environ | {"PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    states = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(states) > 15 / stride
    last = states.pop()
    assert not last["killed"]
    whole = last["before"]
    assert len([name for name in whole if name.endswith(RECORDS_SUFFIX)]) == 2
    for state in states:
        assert state["killed"]
        found = state["before"]
        assert all(whole[n] == h for n, h in found.items() if n.endswith(RECORDS_SUFFIX))
        assert found.get(RECEIPT_NAME, whole[RECEIPT_NAME]) == whole[RECEIPT_NAME]
        assert not state["failed"]
        assert state["after"] == whole
