"""Read functions that misbehave, in the place of os.preadv."""

import errno
import os
import threading
import time
from collections.abc import Callable

Read = Callable[[int, list[memoryview], int], int]


class Faulty:
    """Counts reads; `fault` is called before each with its number, its bytes are cut to `limit`."""

    def __init__(self, fault: Callable[[int], None] = lambda n: None, limit: int = 1 << 30):
        self.fault, self.limit = fault, limit
        self.count = 0
        self._lock = threading.Lock()

    def __call__(self, descriptor: int, buffers: list[memoryview], offset: int) -> int:
        with self._lock:
            self.count += 1
            number = self.count
        self.fault(number)
        return os.preadv(descriptor, [buffers[0][: self.limit]], offset)


def io_error(n: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def slow(n: int) -> None:
    time.sleep(0.002 * (n % 3))


def jitter(n: int) -> None:
    time.sleep(0.0003 * (n % 3))
