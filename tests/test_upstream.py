"""Variables of the C engine: each is ours under another name, or answered for."""

import re

import pytest

from colibri.cli.run import command as run
from colibri.config import SETTINGS, unknown_variables
from colibri.config.upstream import (
    ABSENT,
    SAMPLING_NAMES,
    idle,
    known_names,
    names_of,
    notices,
    sampling_from,
    taken,
)
from colibri.errors import ConfigError
from colibri.sampling import SamplingParams

ON = {"COLI_UPSTREAM": "1"}
FIELDS = ("temperature", "max_tokens", "seed")

# The variables that the C engine's own pages name for the features of its command line.
SURVEYED = set(
    re.findall(
        r"\w+",
        "RAM_GB CAP CAP_RAISE CTX DIRECT PIPE PIPE_WORKERS PILOT PILOT_REAL DRAFT SPEC_PIN TEMP "
        "SEED NGEN CUDA_EXPERT_GB KVSAVE GRAMMAR SCHEMA URING CACHE_ROUTE DEGRADE_ZERO "
        "RSS_GUARD_GB COLI_MODEL COLI_MODEL_MIRROR COLI_DISK_WEIGHTS COLI_MODEL_DIRS COLI_NUMA "
        "PIN PIN_GB AUTOPIN USAGE_SAVE COLI_USAGE_DECAY ROUTE_TRACE COLI_USAGE COLI_TEMP COLI_MMAP "
        " COLI_PREFILL_CHUNK COLI_DEBUG",
    )
)


def test_every_surveyed_variable_is_known() -> None:
    assert {name for name in SURVEYED if not name.startswith("COLI_")} <= known_names()
    assert unknown_variables(dict.fromkeys(SURVEYED, "x")) == []


def test_a_variable_means_one_thing() -> None:
    names = [u.env for s in SETTINGS for u in names_of(s)]
    names += [n.env for n in SAMPLING_NAMES] + [a.env for a in ABSENT] + [s.env for s in SETTINGS]
    # Some of our own names are the C engine's: COLI_MODEL_MIRROR and COLI_MIRROR are two.
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"COLI_TEMP": "0.5", "TEMP": "0.9"}, {"temperature": 0.5}),
        ({"TEMP": "0"}, {"temperature": 0.0}),
        ({"TEMP": "/var/tmp"}, {}),
        ({"SEED": "7", "NGEN": "64"}, {"seed": 7, "max_tokens": 64}),
        ({"SEED": "", "NGEN": "", "COLI_TEMP": ""}, {}),
    ],
)
def test_sampling(environ: dict[str, str], expected: dict[str, float]) -> None:
    given = {field: value for field, (_, value) in sampling_from(environ | ON, FIELDS).items()}
    assert given == expected
    SamplingParams(**given)  # type: ignore[arg-type]
    unasked = {"temperature": ("COLI_TEMP", 0.5)} if environ.get("COLI_TEMP") else {}
    assert sampling_from(environ, FIELDS) == unasked


@pytest.mark.parametrize("environ", [{"COLI_TEMP": "hot"}, {"SEED": "x"} | ON, {"NGEN": "5s"} | ON])
def test_a_number_that_is_none_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r": '\w+' is not a number"):
        sampling_from(environ, FIELDS)
    assert sampling_from(environ, []) == {}  # what a flag wins over is not read


def test_what_is_taken_is_known() -> None:
    environ = {"CTX": "9", "RAM_GB": "2", "COLI_RAM": "1GB", "SEED": "5", "COLI_TEMP": "0"} | ON
    flags = dict.fromkeys(["context", "ram", "seed", "temperature"])
    assert taken(environ, flags) == [
        ("CTX", "--context"),
        ("COLI_TEMP", "--temperature"),
        ("SEED", "--seed"),
    ]
    assert taken(environ, flags | {"context": "10"})[0] == ("COLI_TEMP", "--temperature")
    assert taken(environ, {"ram": None}) == []
    del environ["COLI_UPSTREAM"]
    assert taken(environ, flags) == [("COLI_TEMP", "--temperature")]
    assert idle(environ) == ["CTX", "RAM_GB", "SEED"]


def test_everyday_names_are_not_answered_for_unasked() -> None:
    everyday = [a.env for a in ABSENT if not a.env.startswith("COLI_")]
    assert {"PIN", "SCHEMA", "PIPE"} < set(everyday)
    assert notices(dict.fromkeys(everyday, "public")) == []


@pytest.mark.parametrize("absent", ABSENT, ids=lambda a: a.env)
def test_what_is_not_here_is_said_once(absent: object) -> None:
    assert notices({absent.env: "5"} | ON) == [f"{absent.env} is set, but {absent.says}"]  # type: ignore[attr-defined]
    assert notices({absent.env: absent.quiet[0]} | ON) == []  # type: ignore[attr-defined]


def test_flags_that_notices_name_exist() -> None:
    flags = {s.flag for s in SETTINGS} | {flag for p in run.params for flag in p.opts}
    assert {flag for a in ABSENT for flag in re.findall(r"--[a-z-]+", a.says)} <= flags
