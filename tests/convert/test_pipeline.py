from __future__ import annotations

import threading
import time
from collections.abc import Generator

import pytest

from colibri.convert.pipeline import ahead
from colibri.errors import ContainerError


def numbers(count: int, made: list[int], closed: list[bool]) -> Generator[int]:
    try:
        for i in range(count):
            made.append(i)
            yield i
    finally:
        closed.append(True)


@pytest.mark.parametrize("count", [0, 1, 2, 20])
@pytest.mark.parametrize("depth", [1, 3])
def test_same_items_in_order(count: int, depth: int) -> None:
    closed: list[bool] = []
    assert list(ahead(numbers(count, [], closed), depth)) == list(range(count))
    assert closed == [True]


def test_never_further_ahead_than_its_depth() -> None:
    made: list[int] = []
    items = ahead(numbers(100, made, []), 2)
    for i in range(10):
        next(items)
        time.sleep(0.001)
        assert len(made) <= i + 3
    items.close()


def test_closing_ends_the_thread_and_the_source() -> None:
    closed: list[bool] = []
    before = threading.active_count()
    items = ahead(numbers(100, [], closed))
    next(items)
    items.close()
    assert closed == [True]
    assert threading.active_count() == before


def test_an_error_arrives_after_the_items_before_it() -> None:
    def failing() -> Generator[int]:
        yield 1
        raise ContainerError("damaged")

    items = ahead(failing())
    assert next(items) == 1
    with pytest.raises(ContainerError, match="damaged"):
        next(items)


def test_nested() -> None:
    closed: list[bool] = []
    inner = ahead(numbers(50, [], closed))
    outer = ahead(i * i for i in inner)
    assert [next(outer) for _ in range(5)] == [0, 1, 4, 9, 16]
    outer.close()
    inner.close()
    assert closed == [True]
