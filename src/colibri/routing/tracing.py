"""Records routing while a model runs."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from colibri.container.files import reason
from colibri.container.output import check_writable
from colibri.errors import ConfigError
from colibri.routing.base import F32, I32, Router, RouterFactory
from colibri.routing.trace import (
    Call,
    Header,
    LayerFacts,
    check_replaceable,
    encode,
    encode_header,
)

logger = logging.getLogger("colibri")


class Tracer:
    """Writes what the routers of a model choose to a file; an earlier trace there is replaced.

    header: of the layers it names those that get a router are recorded, with their k.
    Raises ConfigError if there can be no such file. If it cannot be written later on, one warning
    is given and the run goes on.
    """

    def __init__(self, path: Path, header: Header) -> None:
        check_replaceable(path)
        check_writable("--trace", path)
        self._path = path
        self._header = header
        self._layers: dict[int, LayerFacts] = {}
        self._starts: Sequence[int] = (0,)
        self._fd = _open_alone(path)
        self._begun = self._failed = False

    def wrap(self, make_router: RouterFactory) -> RouterFactory:
        """Routers that choose as those of `make_router`."""
        facts = {f.layer: f for f in self._header.layers}

        def make(layer: int, router: Router, experts: int) -> Router:
            inner = make_router(layer, router, experts)
            known = facts.get(layer, LayerFacts(layer, experts, inner.k))
            self._layers[layer] = msgspec.structs.replace(known, experts=experts, k=inner.k)
            return TracedRouter(layer, inner, self)

        return make

    def step(self, starts: Sequence[int]) -> None:
        """A walk through the layers begins; the first row of each of its sequences."""
        self._starts = starts

    def record(self, layer: int, ids: I32, weights: F32, logits: F32) -> None:
        if self._failed:
            return
        kept = logits if self._header.logits else None
        data = encode(Call(layer, self._starts, ids, weights, kept))
        if not self._begun:
            self._begun = True
            layers = [self._layers[n] for n in sorted(self._layers)]
            data = encode_header(msgspec.structs.replace(self._header, layers=layers)) + data
        self._write(data)

    def restart(self) -> None:
        """Forgets what was recorded so far."""
        os.ftruncate(self._fd, 0)
        self._begun = False

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        """A record goes to the system at once: it survives the end of this process."""
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self._failed = True
            logger.warning("--trace %s ends here: %s", self._path, reason(error))


def _open_alone(path: Path) -> int:
    """The file, empty, and locked: two runs in one file would leave a trace of neither."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--trace {path}: cannot be written: {reason(error)}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise ConfigError(
            f"--trace {path}: another run is recording there; give another name"
        ) from None
    except OSError:
        pass  # a file system without locks
    os.ftruncate(fd, 0)
    return fd


class TracedRouter:
    """A layer's router, overheard."""

    def __init__(self, layer: int, router: Router, tracer: Tracer) -> None:
        self._layer = layer
        self._router = router
        self._tracer = tracer

    @property
    def k(self) -> int:
        return self._router.k

    def route(self, logits: F32) -> tuple[I32, F32]:
        ids, weights = self._router.route(logits)
        self._tracer.record(self._layer, ids, weights, logits)
        return ids, weights

    def guess(self, logits: F32) -> I32:
        return self._router.guess(logits)
