"""The limit of open files: raised as far as it may be, never lowered."""

import resource
from typing import Any

import pytest

from colibri.hardware import descriptors


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """[soft, hard] of a process that is not this one."""
    kept = [64, 4096]

    def change(_: int, new: Any) -> None:
        kept[:] = new

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(kept))
    monkeypatch.setattr(resource, "setrlimit", change)
    return kept


def test_it_is_raised_to_what_is_needed(limits: list[int]) -> None:
    assert descriptors.allow(400) == 400
    assert limits == [400, 4096]
    assert descriptors.allow(100) == 400
    assert descriptors.allow(10_000) == 4096
    assert limits == [4096, 4096]
    assert descriptors.most_open() == 4096


def test_without_a_limit(limits: list[int]) -> None:
    limits[:] = [resource.RLIM_INFINITY, resource.RLIM_INFINITY]
    assert descriptors.allow(10**6) is None
    assert descriptors.most_open() is None
    limits[0] = 64
    assert descriptors.allow(400) == 400


def test_a_sandbox_that_refuses(limits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert descriptors.allow(400) == 64


def test_what_is_open_is_counted() -> None:
    before = descriptors.open_now()
    with open("/dev/null"), open("/dev/null"):
        assert descriptors.open_now() == before + 2
