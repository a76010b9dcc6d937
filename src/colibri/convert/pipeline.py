"""Overlap of reading, packing and writing: work that is done before its result is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")


def ahead(items: Generator[T], depth: int = 2) -> Generator[T]:
    """The same items in the same order, up to `depth` of them made before they are asked for.

    Closing it, or an error on either side, ends the thread and closes `items`.
    """
    end = object()
    waiting: deque[Future[T | object]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="coli-convert")
    try:
        waiting.extend(pool.submit(next, items, end) for _ in range(depth))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, items, end))
            yield item  # type: ignore[misc]
    finally:
        pool.shutdown(cancel_futures=True)
        items.close()


def each_ahead(
    work: Callable[[A], T], items: Iterable[A], *, threads: int, depth: int
) -> Generator[T]:
    """work(item) of each in order, up to `depth` of them under way or done before they are asked
    for. Closing it, or an error, ends the threads."""
    waiting: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="coli-read")
    try:
        for item in items:
            if len(waiting) == depth:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, item))
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
