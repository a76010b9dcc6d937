"""What a budget buys."""

from __future__ import annotations

from typing import Any

import pytest

from colibri.container.mirror import Key
from colibri.errors import CapacityError
from colibri.planner.mirror.plan import MirrorPlan, Present, make_plan
from mirror_kit import LARGE, experts_bytes, layers_of, model_at, some_heat


@pytest.fixture(scope="module", params=["source", "int4"])
def layers(request: Any, model_of: Any) -> Any:
    return layers_of(model_of("olmoe", request.param))


def plan(layers: Any, unit: Any = "records", room: int = LARGE, **options: Any) -> MirrorPlan:
    heat = options.pop("heat", some_heat(layers))
    return make_plan(layers, heat, "id", unit=unit, room_bytes=room, **options)


def keys(plan: MirrorPlan) -> list[Key]:
    return [key for file in plan.files for key in file.experts]


def test_the_hottest_records_come_first(layers: Any) -> None:
    heat = some_heat(layers)
    hottest = sorted(heat, key=lambda key: -heat[key])
    half = plan(layers, room=experts_bytes(layers) // 2)
    chosen = keys(half)
    assert set(chosen) == set(hottest[: len(chosen)])
    assert len(heat) // 3 < len(chosen) <= len(heat) // 2
    assert half.share == pytest.approx(sum(heat[k] for k in chosen) / sum(heat.values()))
    assert half.share > len(chosen) / len(heat)
    assert (half.experts, half.experts_total) == (len(chosen), len(heat))


def test_no_budget_is_exceeded_and_none_is_wasted(layers: Any) -> None:
    everything = plan(layers).new_bytes
    largest = max(plan(layers, file_bytes=1).files, key=lambda f: f.size).size
    for room in range(largest, everything + 4096, everything // 40):
        for file_bytes in (1, everything // 5, LARGE):
            planned = plan(layers, room=room, file_bytes=file_bytes)
            assert planned.new_bytes <= room
            complete = planned.experts == planned.experts_total
            assert complete or room - planned.new_bytes < largest + 8192


def test_files_of_records_are_no_larger_than_wanted(layers: Any) -> None:
    whole = plan(layers)
    assert len(whole.files) == 1
    split = plan(layers, file_bytes=experts_bytes(layers) // 3)
    assert len(split.files) >= 3
    assert sorted(keys(split)) == sorted(keys(whole))
    assert len({file.name for file in split.files}) == len(split.files)
    heat = some_heat(layers)
    coldest = [min(heat[k] for k in file.experts) for file in split.files]
    hottest = [max(heat[k] for k in file.experts) for file in split.files]
    assert all(a >= b for a, b in zip(coldest, hottest[1:], strict=False))


def test_what_is_present_is_not_planned_again(layers: Any) -> None:
    first = plan(layers, room=experts_bytes(layers) // 3)
    present = Present([f.name for f in first.files], keys(first), first.new_bytes)
    rest = plan(layers, present=present)
    assert not set(keys(rest)) & set(keys(first))
    assert rest.experts == rest.experts_total
    done = Present([f.name for f in rest.files], [*keys(first), *keys(rest)])
    assert plan(layers, present=done, room=0).files == ()


def test_whole_shards(model_of: Any) -> None:
    layers = layers_of(model_of("olmoe", "int4"))
    n = min(layers)
    heat = {(number, 0): float(number == n + 1) for number in layers}
    everything = plan(layers, "shards", heat=heat)
    assert everything.new_bytes == sum(f.source.stat().st_size for f in everything.files)
    first = everything.files[0]
    assert first.experts[0][0] == n + 1
    one = plan(layers, "shards", heat=heat, room=first.size)
    assert [f.name for f in one.files] == [first.name]
    assert one.share == 1.0


def test_nothing_fits(layers: Any) -> None:
    for unit in ("records", "shards"):
        with pytest.raises(CapacityError, match=rf"no more {unit} fit .* 100 are left of --budget"):
            plan(layers, unit, room=100)


def test_a_drive_that_is_fuller_than_the_reserve_allows(layers: Any) -> None:
    for unit in ("records", "shards"):
        with pytest.raises(CapacityError, match=rf"no more {unit} fit .* 0 are left of --budget"):
            plan(layers, unit, room=-100)


def test_a_plan_without_counts_has_no_share(layers: Any) -> None:
    assert plan(layers, heat={}).share is None


def test_another_model_of_the_same_shape_has_another_identity(model_of: Any, tmp_path: Any) -> None:
    import shutil

    path = model_of("olmoe", "source")
    other = shutil.copytree(path, tmp_path / "other")
    assert model_at(path).identity == model_at(other).identity
    file = other / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert model_at(path).identity != model_at(other).identity
