"""The comparison must be able to fail, and the drawn shapes must be awkward."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from scripts.oracle.compare import Outcome, compare
from scripts.oracle.reference import Reference, read, write
from scripts.oracle.shapes import FAMILIES, draw, released_style


def echo(ids: list[int]) -> NDArray[np.float32]:
    """A model that always wants the token after the last one."""
    logits = np.zeros((len(ids), 5), np.float32)
    logits[np.arange(len(ids)), [(i + 1) % 5 for i in ids]] = 1
    return logits


def reference() -> Reference:
    whole = echo([4, 0, 1, 2])
    return Reference([4, 0], [1, 2], whole[:2], whole[-1])


def test_equal_logits_pass() -> None:
    assert compare(echo, reference()) == Outcome(0.0, True)


@pytest.mark.parametrize("row", [0, -1])
def test_one_wrong_logit_fails(row: int) -> None:
    def wrong(ids: list[int]) -> NDArray[np.float32]:
        logits = echo(ids)
        logits[row, 0] += 0.002
        return logits

    assert not compare(wrong, reference()).passed


def test_nan_and_wrong_shape_fail() -> None:
    assert not compare(lambda ids: echo(ids) * np.float32("nan"), reference()).passed
    assert not compare(lambda ids: echo(ids)[:, :4], reference()).passed


def test_other_greedy_token_fails() -> None:
    ref = reference()
    other = Reference(ref.prompt_ids, [1, 1], ref.prompt_logits, echo([4, 0, 1, 1])[-1])
    outcome = compare(echo, other)
    assert not outcome.greedy_equal
    assert not outcome.passed


def test_reference_survives_the_disk(tmp_path: Path) -> None:
    ref = reference()
    write(tmp_path, ref)
    back = read(tmp_path)
    assert (back.prompt_ids, back.greedy_ids) == (ref.prompt_ids, ref.greedy_ids)
    np.testing.assert_array_equal(back.prompt_logits, ref.prompt_logits)
    np.testing.assert_array_equal(back.last_logits, ref.last_logits)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(6))
def test_shapes_are_repeatable_and_off_the_grid(family: str, seed: int) -> None:
    config = draw(family, seed)
    assert config == draw(family, seed)
    config = config.get("text_config", config)
    assert config["hidden_size"] % 64
    inner = config[
        "moe_intermediate_size" if "moe_intermediate_size" in config else "intermediate_size"
    ]
    assert inner % 16


def test_released_style_keeps_the_rope_values() -> None:
    yarn = released_style(draw("qwen3_moe", 1))
    assert yarn["rope_scaling"]["rope_type"] == "yarn"
    assert "rope_theta" not in yarn["rope_scaling"]
    assert yarn["rope_theta"] in (1e4, 1e6)
    assert released_style(draw("olmoe", 2))["rope_scaling"] is None
    partial = released_style(draw("qwen3_5_moe", 1))
    assert (partial["partial_rotary_factor"], partial["rope_scaling"]) == (0.25, None)
    nested = released_style(draw("glm5_next", 1))["text_config"]
    assert set(nested["layer_types"]) == {"linear_attention", "full_attention"}
