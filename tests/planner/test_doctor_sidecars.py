"""What the doctor says of usage, mirrors and models spread over directories."""

import shutil
from dataclasses import replace

import pytest
from doctor_kit import GOOD

import golden
from colibri.config import EngineConfig
from colibri.llm import LLM, embedded_model
from colibri.planner.doctor import sidecars
from colibri.planner.doctor.case import Case, Depth, ModelFiles
from colibri.planner.doctor.examine import CHECKS, examine
from colibri.sampling import SamplingParams


@pytest.fixture
def demo(tmp_path):
    return shutil.copytree(embedded_model(), tmp_path / "demo")


def case(path, others=(), **config):
    wishes = EngineConfig(model=str(path), **config)
    return Case(ModelFiles(path, others), wishes, replace(GOOD, environ={}), Depth(hashes=True))


def test_usage_that_is_not_there_or_off_is_no_news(demo):
    assert [f.status for f in sidecars.usage(case(demo))] == ["pass"]
    (found,) = sidecars.usage(case(demo, usage="off"))
    assert (found.status, "off" in found.what) == ("pass", True)


def test_usage_that_was_counted_is_told(demo):
    file = demo / ".coli_usage"
    with LLM(demo, usage=str(file), ram="1GB", context=64) as llm:
        llm.generate("Once", SamplingParams(max_tokens=3, ignore_eos=True))
    (found,) = sidecars.usage(case(demo))
    assert (found.status, found.where) == ("pass", str(file))
    assert "remembered" in found.what


def test_damaged_usage_is_a_warning(demo):
    (demo / ".coli_usage").write_text("nonsense\n")
    (found,) = sidecars.usage(case(demo))
    assert (found.status, bool(found.fix)) == ("warn", True)


def test_a_mirror_is_told_and_what_does_not_fit_in_it_named(demo, tmp_path):
    mirror = shutil.copytree(demo, tmp_path / "mirror")
    (found,) = sidecars.mirrors(case(demo, mirror=(str(mirror),)))
    assert (found.status, "4 files" in found.what) == ("pass", True)
    broken = next(mirror.glob("experts-L00003*"))
    broken.write_bytes(broken.read_bytes()[:-4096])
    states = [f.status for f in sidecars.mirrors(case(demo, mirror=(str(mirror),)))]
    assert states == ["warn", "pass"]


def test_what_is_no_mirror_fails(demo, tmp_path):
    (found,) = sidecars.mirrors(case(demo, mirror=(str(tmp_path / "none"),)))
    assert (found.status, found.fix) == ("fail", sidecars.MIRROR_FIX)
    assert sidecars.mirrors(case(demo))[0].status == "skip"


@pytest.mark.parametrize("source", [embedded_model(), golden.tiny("olmoe")])
def test_a_model_spread_over_directories_is_well(source, tmp_path):
    path, other = shutil.copytree(source, tmp_path / "a"), tmp_path / "b"
    other.mkdir()
    moved = sorted(path.glob("*.safetensors"))[0]
    moved.rename(other / moved.name)
    bad = [f for f in examine(case(path, [other]), CHECKS) if f.status == "fail"]
    assert bad == []
    bad = {f.check for f in examine(case(path), CHECKS) if f.status == "fail"}
    assert {"model.headers", "model.shards"} & bad
