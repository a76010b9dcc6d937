from __future__ import annotations

import threading
import time
from collections.abc import Generator

import pytest

from colibri.convert.pipeline import ahead, each_ahead
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


@pytest.mark.parametrize("count", [0, 1, 3, 20])
@pytest.mark.parametrize(("threads", "depth"), [(1, 1), (3, 2), (2, 6)])
def test_each_in_order_and_never_further_than_its_depth(
    count: int, threads: int, depth: int
) -> None:
    begun: list[int] = []

    def square(i: int) -> int:
        begun.append(i)
        time.sleep(0.001 * (i % 3))
        return i * i

    got = []
    for value in each_ahead(square, range(count), threads=threads, depth=depth):
        got.append(value)
        assert len(begun) <= len(got) + depth
    assert got == [i * i for i in range(count)]


def test_each_is_worked_on_side_by_side() -> None:
    together = threading.Barrier(3)
    items = each_ahead(lambda i: together.wait(10) >= 0, range(6), threads=3, depth=3)
    assert list(items) == [True] * 6


def test_closing_or_an_error_ends_the_threads() -> None:
    before = threading.active_count()
    items = each_ahead(abs, range(100), threads=3, depth=4)
    next(items)
    items.close()
    assert threading.active_count() == before
    failing = each_ahead(lambda i: 1 // (3 - i), range(100), threads=3, depth=4)
    assert [next(failing) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(failing)
    assert threading.active_count() == before
