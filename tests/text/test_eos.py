"""EOS ids are the union of three files (B064)."""

from dataclasses import dataclass

import pytest

from colibri.errors import ConfigError
from colibri.text.eos import eos_ids


@dataclass
class Named:
    eos_ids: frozenset[int] = frozenset({7})


def test_union_of_ints_lists_and_nulls() -> None:
    assert eos_ids({"eos_token_id": 1}, {"eos_token_id": [2, 3]}, Named()) == {1, 2, 3, 7}
    assert eos_ids({"eos_token_id": [0, 0]}, {"eos_token_id": None}, None) == {0}
    assert eos_ids({"text_config": {"eos_token_id": [4, 5]}}, {"eos_token_id": 6}, None) == {
        4,
        5,
        6,
    }
    assert eos_ids({}, {}, None) == frozenset()


@pytest.mark.parametrize("value", ["2", 2.0, True, [1, None], [[1]], {"id": 1}, -1, [1, -2]])
def test_other_types_are_named(value: object) -> None:
    with pytest.raises(ConfigError, match=r"generation_config\.json: eos_token_id"):
        eos_ids({}, {"eos_token_id": value}, None)
    with pytest.raises(ConfigError, match=r"^config\.json: eos_token_id"):
        eos_ids({"eos_token_id": value}, {}, None)
