"""The fixtures themselves: complete, small, and consistent with one another."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import golden
from colibri.models.registry import family_for


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_config_names_the_family_and_its_vocabulary(family: str) -> None:
    config = json.loads((golden.tiny(family) / "config.json").read_text())
    tensors = load_file(golden.tiny(family) / "model.safetensors")
    text = golden.text_config(family)
    assert family_for(config).name == family
    assert tensors["lm_head.weight"].shape == (text["vocab_size"], text["hidden_size"])


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_reference_is_consistent(family: str) -> None:
    ref = golden.reference(family)
    assert ref.prompt_logits.shape == (len(ref.prompt_ids), ref.last_logits.size)
    assert ref.prompt_logits.dtype == ref.last_logits.dtype == np.float32
    assert np.isfinite(ref.prompt_logits).all()
    assert int(ref.prompt_logits[-1].argmax()) == ref.greedy_ids[0]


def test_fixtures_stay_small() -> None:
    files = golden.tiny("").rglob("*")
    assert sum(f.stat().st_size for f in files if f.is_file()) < 10_000_000
