"""How far the loading of a model is."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from colibri.container.reader import Container

OnLoad = Callable[[int, int], None]  # bytes that are loaded, of how many


@contextmanager
def telling(container: Container, on_load: OnLoad | None) -> Iterator[None]:
    """Meanwhile what is read of the trunk is told."""
    if on_load is None:
        yield
        return
    lock, done, total = threading.Lock(), 0, container.required_bytes

    def on_read(nbytes: int) -> None:
        nonlocal done
        with lock:
            done = min(done + nbytes, total)  # some tensors may be read twice
            on_load(done, total)

    container.files.on_read = on_read
    try:
        yield
    finally:
        container.files.on_read = None
