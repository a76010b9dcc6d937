"""What the endpoints share: the model once it is loaded, who is being answered, whether the server
is about to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from colibri.config import ServerConfig
from colibri.planner.forecast import Rates
from colibri.server.http.crowd import Room
from colibri.server.http.errors import ApiError
from colibri.server.http.places import places
from colibri.server.live import Asked, Exchange, Inbox
from colibri.server.metrics import Metrics
from colibri.server.watch.firing import Firings
from colibri.server.watch.profile import SampledClock

if TYPE_CHECKING:
    from colibri.llm import LLM
    from colibri.sampling import SamplingParams

T = TypeVar("T")
State = Literal["loading", "ready", "draining"]
_BUSY_SECONDS = 5  # to come again after, while the model loads or the server ends


class Abortable(Protocol):
    def abort(self, error: BaseException, /) -> None: ...


class Service:
    """sampling: what the operator set of SamplingParams."""

    def __init__(self, config: ServerConfig, sampling: dict[str, Any] | None = None) -> None:
        self.config = config
        self.room = Room(config.connections)
        self.metrics = Metrics()
        self.state: State = "loading"
        self.started = int(time.time())
        self.model_id = config.model_id or ""
        self.fingerprint = ""
        self.stop_token: str | None = None
        self.stop: Callable[[], None] = self.drain
        self.clock = SampledClock()
        self.rates: Rates | None = None  # of this machine, once somebody had them measured
        self.measuring = False
        self.building = False  # an atlas
        self.drained = asyncio.Event()
        self._sampling = sampling or {}
        self._llm: LLM | None = None
        self._exchanges: set[Abortable] = set()
        # Tokenising and templates; none of it may keep the event loop from its work. Grammars may
        # take seconds each, so they have workers of their own: only requests like them wait.
        self._workers = ThreadPoolExecutor(2, thread_name_prefix="colibri-http")
        self._compilers = ThreadPoolExecutor(2, thread_name_prefix="colibri-grammar")

    def loaded(self, llm: LLM, name: str) -> None:
        self._llm = llm
        self.model_id = self.config.model_id or name
        self.fingerprint = f"fp_{llm.fingerprint}"
        self.metrics.watch(llm)
        self.clock.watch(llm.experts)
        if self.state == "loading":
            self.state = "ready"

    @property
    def llm(self) -> LLM:
        if self._llm is None or self.state != "ready":
            raise self.unready()
        return self._llm

    @property
    def default_params(self) -> SamplingParams:
        """The model's, and what the operator set."""
        return replace(self.llm.default_params, **self._sampling)

    @property
    def firings(self) -> Firings:
        return self.clock.firings

    @property
    def any_llm(self) -> LLM | None:
        """Also while the server ends."""
        return self._llm

    def places(self) -> tuple[str, ...]:
        """Folders of this machine that no answer names."""
        return places(self._llm)

    def unready(self) -> ApiError:
        says = "the model is being loaded" if self.state == "loading" else "the server is stopping"
        after = {"retry-after": str(_BUSY_SECONDS)}
        return ApiError(503, says, code=self.state, headers=after)

    def check_model(self, name: str | None) -> None:
        """While it loads neither its name nor its defaults are known: come again."""
        if self._llm is None:
            raise self.unready()
        if name is not None and name != self.model_id:
            raise ApiError(
                404,
                f"there is no model {name[:100]!r} here; this server has {self.model_id!r} "
                "(--model-id gives it another name)",
                param="model",
                code="model_not_found",
            )

    def default(self, field: str) -> Any:
        """What the operator or the model's makers set of SamplingParams; None: neither did."""
        if field in self._sampling:
            return self._sampling[field]
        own = self.llm.container.generation_config
        return getattr(self.default_params, field) if own.get(_OWN.get(field, field)) else None

    async def work(self, function: Callable[[], T], *, compiles: bool = False) -> T:
        """compiles: it may have to compile a grammar."""
        workers = self._compilers if compiles else self._workers
        return await asyncio.get_running_loop().run_in_executor(workers, function)

    def deadline(self) -> float | None:
        seconds = self.config.request_timeout
        return None if seconds is None else time.monotonic() + seconds

    def inbox(self) -> Inbox:
        return Inbox(asyncio.get_running_loop())

    def exchange(self, asked: Sequence[Any], inbox: Inbox) -> Exchange:
        return Exchange(asked, inbox, self._submit)

    def _submit(self, asked: Asked) -> None:
        """Also while the server ends: what is asked belongs to a request that it has taken."""
        assert self._llm is not None
        self._llm.submit(asked)  # type: ignore[arg-type]  # what llm.request() made

    @contextmanager
    def answering(self, exchange: Abortable) -> Iterator[None]:
        """An HTTP request is being answered; the server does not end meanwhile."""
        self._exchanges.add(exchange)
        try:
            yield
        finally:
            self._exchanges.discard(exchange)
            self._check_drained()

    @property
    def active(self) -> int:
        return len(self._exchanges)

    def drain(self) -> None:
        """No new requests; `drained` is set when the last answer has ended."""
        self.state = "draining"
        self._check_drained()

    def abort(self) -> None:
        """End what is still being answered."""
        for exchange in list(self._exchanges):
            exchange.abort(self.unready())

    def close(self) -> None:
        for workers in (self._workers, self._compilers):
            workers.shutdown(wait=False, cancel_futures=True)

    def _check_drained(self) -> None:
        if self.state == "draining" and not self._exchanges:
            self.drained.set()


_OWN = {"max_tokens": "max_new_tokens"}
