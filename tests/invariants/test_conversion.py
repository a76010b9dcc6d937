"""A conversion that was killed and resumed gives the very files of one that ran through, so the
same bits of every logit."""

from pathlib import Path
from typing import Any

import pytest
from convert_kit import dying, fast_directory, tree

import golden


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_killed_and_resumed(family: str, model_of: Any, tmp_path: Path) -> None:
    whole = tree(model_of(family, "int4"))
    with fast_directory(tmp_path) as work:
        states = dying(golden.tiny(family), work, "plain", stride=17)
    deaths = [s for s in states if s["killed"]]
    assert len(deaths) >= 4
    assert all(s["before"]["out"] != whole for s in deaths[:-1])
    for state in states:
        assert not state["failed"], state["n"]
        assert state["after"]["out"] == whole, state["n"]
