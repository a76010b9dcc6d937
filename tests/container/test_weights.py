import pytest
from tiny_model import weight_map


def test_layer_and_expert_come_from_the_name() -> None:
    match = weight_map().classify("model.layers.1.experts.2.up.weight")
    assert match is not None
    assert (match.rule.role, match.rule.part, match.layer, match.expert) == ("expert", "up", 1, 2)
    match = weight_map().classify("model.layers.1.experts.gate_up")
    assert match is not None
    assert (match.layer, match.expert) == (1, None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "model.norm",
        "xmodel.norm.weight",
        "model.norm.weight\n",
        "model.layers.01.q_proj.weight",
        "model.layers.1.experts.00.up.weight",
        "model.layers.1234567890.q_proj.weight",
        "model.layers.٣.q_proj.weight",
        "model.layers." + "9" * 100_000 + ".q_proj.weight",
    ],
)
def test_unknown_names_and_second_spellings(name: str) -> None:
    assert weight_map().classify(name) is None
