"""Shapes are the released models' own sizes, and their families take them."""

import math

import pytest

from colibri.errors import ConfigError
from colibri.formats.packed import INT4
from colibri.lab.shapes import find_shape
from colibri.models.registry import family_for


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("olmoe-1b-7b", 6.9),
        ("qwen3-30b-a3b", 30.5),
        ("qwen3.6-35b-a3b", 34.7),
        ("mixtral-8x7b", 46.7),
        ("glm-5.2:78", 744),
        ("glm-5.3-flash:45", 313.3),
    ],
)
def test_parameters_are_those_of_the_model(name, billions):
    config = find_shape(name).config
    weights = family_for(config).weights_of(config)
    total = 0
    for shape in weights.required.values():
        size = 1
        for n in shape:
            size *= n
        total += size
    total += sum(3 * e.num_experts * e.hidden * e.inner for e in weights.experts.values())
    assert total / 1e9 == pytest.approx(billions, rel=0.02)


def test_layers_cut_a_model_at_full_width():
    whole, cut = find_shape("glm-5.2:78"), find_shape("glm-5.2:5")
    weights = family_for(cut.config).weights_of(cut.config)
    assert sorted(weights.experts) == [3, 4]
    assert cut.name == "glm-5.2-5"
    assert cut.config["hidden_size"] == whole.config["hidden_size"]
    family_for(find_shape("glm-5.2:2").config).weights_of(find_shape("glm-5.2:2").config)
    flash = find_shape("glm-5.3-flash:4").config
    assert sorted(family_for(flash).weights_of(flash).experts) == [3]
    assert find_shape("glm-5.3-flash:45").config["text_config"]["num_hidden_layers"] == 45
    assert INT4.nbytes(6144, 2048) > 0


@pytest.mark.parametrize(
    ("name", "error", "word"),
    [
        ("glm-5.3-flash", ConfigError, "LAYERS"),
        ("glm-5.3-flash:46", ConfigError, "1 to 45"),
        ("glm-5.2", ConfigError, "LAYERS"),
        ("glm-5.2:0", ConfigError, "1 to 78"),
        ("glm-5.2:99", ConfigError, "1 to 78"),
        ("glm-5.2:x", ConfigError, "1 to 78"),
        ("gpt", ConfigError, "choose from"),
    ],
)
def test_other_names_are_refused(name, error, word):
    with pytest.raises(error, match=word):
        find_shape(name)


def test_six_layers_of_glm_fit_a_small_disk():
    """Experts packed to 4 bits, everything else in bf16: within 30 GB."""
    config = find_shape("glm-5.2:6").config
    weights = family_for(config).weights_of(config)
    total = sum(2 * math.prod(shape) for shape in weights.required.values())
    for e in weights.experts.values():
        gate, down = (INT4.nbytes(*s) for s in [(e.inner, e.hidden), (e.hidden, e.inner)])
        total += e.num_experts * (2 * gate + down)
    assert 20e9 < total < 30e9
