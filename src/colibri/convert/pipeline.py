"""Overlap of reading, packing and writing: a generator that runs in a thread of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

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
