"""What the settings make of a family's routers; what they may say."""

from dataclasses import dataclass

import numpy as np
import pytest
from routing_kit import BIAS, EXPERTS, OWN

from colibri.config import EngineConfig
from colibri.config.routers import parse_router
from colibri.errors import ConfigError
from colibri.routing.approximation import Approximation
from colibri.routing.cacheaware import Residency
from colibri.routing.drawn import GumbelRouter, SoftRouter
from colibri.routing.sigmoid import SigmoidRouter
from colibri.routing.topp import TopPRouter


def approximation(router="own", k=None, p=None):
    resident = Residency(lambda layer: np.ones(EXPERTS, np.bool_))
    return Approximation(parse_router(router), k, p, resident)


def test_nothing_asked_is_the_familys_own_router():
    plain = approximation()
    assert not plain.changes_anything
    assert plain.text() == ""
    assert plain.make(0, OWN["softmax"], EXPERTS) is OWN["softmax"]


def test_all_that_is_asked_goes_together():
    asked = approximation("gumbel:Temperature=0.25", 3, 0.8)
    made = asked.make(2, OWN["softmax"], EXPERTS)
    assert isinstance(made, TopPRouter)
    assert isinstance(made.inner, GumbelRouter)
    assert (made.k, made.inner.temperature, made.inner.layer) == (3, 0.25, 2)
    text = "router gumbel:temperature=0.25,seed=0, 3 experts a token, expert top-p 0.8"
    assert asked.text() == text


def test_defaults():
    assert parse_router("gumbel").values == {"temperature": 0.5, "seed": 0}
    assert parse_router(" Cache-Aware : j=3 ".replace(" :", ":")).values == {"J": 3, "M": 12}
    soft = approximation("soft").make(0, OWN["sigmoid"], EXPERTS)
    assert isinstance(soft, SoftRouter)
    assert soft.temperature == 1
    assert approximation("int8-table").int8_gates
    # M is no more than a token can go to, J no more than it goes to.
    ranked = approximation("cache-aware:M=1000").make(0, OWN["sigmoid in groups"], EXPERTS).ranked
    assert ranked.k == EXPERTS // 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nope", "no router; give own"),
        ("", "no router"),
        ("own:J=2", "takes no parameters"),
        ("gumbel:", "takes temperature, seed"),
        ("gumbel:temperature", "temperature=: give a number"),
        ("gumbel:temperature=nan", "from 0.001 to 10"),
        ("gumbel:seed=1.5", "whole number"),
        ("gumbel:seed=1,seed=2", "twice"),
        ("cache-aware:J=5,M=4", "J is at most M"),
        (7, "no router"),
    ],
)
def test_a_bad_router_is_refused(text, says):
    with pytest.raises(ConfigError, match=says):
        EngineConfig(router=text)


@pytest.mark.parametrize("value", ["0", "1.5", "x", "nan", "inf", True, None])
def test_a_share_is_above_0_and_at_most_1(value):
    with pytest.raises(ConfigError, match="expert-top-p"):
        EngineConfig.resolve(environ={}, file=None, expert_top_p=value or "-")


def test_too_many_experts_a_token_are_refused():
    with pytest.raises(ConfigError, match="layer 4 has 12 experts"):
        approximation(k=13).make(4, OWN["softmax"], EXPERTS)
    grouped = SigmoidRouter(2, BIAS, 4, 2, True, 1.0)
    with pytest.raises(ConfigError, match="of which a token can go to 6"):
        approximation(k=7).make(4, grouped, EXPERTS)


def test_a_router_that_is_none_to_build_on_is_refused():
    @dataclass
    class Foreign:
        k: int = 2

    with pytest.raises(ConfigError, match=r"soft.*not for the router of this model"):
        approximation("soft").make(0, Foreign(), EXPERTS)
