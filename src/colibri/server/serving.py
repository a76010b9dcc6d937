"""From a port to a server that ends well: bind, load, answer, drain."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from colibri.config import ServerConfig
from colibri.container.layerexperts import main_layers
from colibri.errors import ConfigError
from colibri.planner.descriptors import left_for_connections, left_while_loading
from colibri.server.app import Application
from colibri.server.http.protocol import uvicorn_config
from colibri.server.service import Service

if TYPE_CHECKING:
    from colibri.llm import LLM

logger = logging.getLogger("colibri.server")

_SLACK_SECONDS = 5.0  # in which aborted answers tell their clients so
_WAITING = 1024  # connections that the system holds until they are accepted


def bind(config: ServerConfig) -> socket.socket:
    """Listening, before a model is loaded for nothing. Raises ConfigError."""
    try:
        infos = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ConfigError(f"--host {config.host}: {error.strerror}") from None
    # A name such as localhost may mean both: clients try the older family at any rate.
    family, kind, protocol, _, address = min(infos, key=lambda info: info[0] != socket.AF_INET)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_WAITING)
    except OSError as error:
        listening.close()
        raise ConfigError(_cannot_listen(config, error)) from None
    return listening


def _cannot_listen(config: ServerConfig, error: OSError) -> str:
    where = f"{config.host} port {config.port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{where} is in use: choose another with --port, or end what is there (a colibri "
            f"server: coli stop --port {config.port})"
        )
    return f"cannot listen on {where}: {error.strerror}"


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """load: makes the model; on a thread of its own, while requests are told to come again."""

    def __init__(self, service: Service, load: Callable[[], LLM], name: str) -> None:
        config = service.config
        app = Application(service)
        super().__init__(uvicorn_config(app, config.head_timeout, service.room))
        self.service = service
        self.on_ready: Callable[[], None] = lambda: None
        self.failure: BaseException | None = None
        self._load, self._name = load, name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None
        service.stop = self.stop

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.service.room.fit(left_while_loading(self.service.room.whole))
        threading.Thread(target=self._load_model, name="colibri-load", daemon=True).start()
        try:
            await super().serve(sockets)
        finally:
            self.service.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():  # what is accepted at once is no measure of what may wait
            listening.listen(_WAITING)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal asks for an end, the second insists."""
        if self.service.state == "draining":
            self.force_exit = self.should_exit = True
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self.stop)

    def stop(self) -> None:
        """No new answers; once the running ones have ended, or their time is over, the end."""
        if self._draining is None:
            self.service.drain()
            self._draining = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        drained = self.service.drained
        if self.service.active:
            logger.info("stopping; %d answers may end first", self.service.active)
        try:
            await asyncio.wait_for(drained.wait(), self.service.config.drain_timeout)
        except TimeoutError:
            self.service.abort()
            try:
                await asyncio.wait_for(drained.wait(), _SLACK_SECONDS)
            except TimeoutError:
                self.force_exit = True
        self.should_exit = True

    def _load_model(self) -> None:
        try:
            llm = self._load()
        except BaseException as error:  # a thread's edge: whoever runs the server raises it
            self.failure = error
            self.should_exit = True
            return
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._loaded, llm)
        except RuntimeError:  # the server has ended meanwhile
            llm.close()

    def _loaded(self, llm: LLM) -> None:
        self._fit_connections(llm)
        self.service.loaded(llm, self._name)
        if self.service.state == "ready":
            self.on_ready()

    def _fit_connections(self, llm: LLM) -> None:
        """Into the descriptors that the model's files leave."""
        layers, room = main_layers(llm.container.expert_layers()), self.service.room
        if room.fit(left_for_connections(layers, len(llm.config.mirror))):
            logger.warning(
                "at most %d connections are served at a time, since the limit of open files leaves "
                "no more: raise the hard limit (ulimit -Hn, or LimitNOFILE= of a service)",
                room.most,
            )


def run(server: Server, listening: socket.socket) -> None:
    """Until the server has ended. Raises what made the model fail to load."""
    with listening:
        server.run(sockets=[listening])
    llm = server.service.any_llm
    if llm is not None:
        llm.close()
    if server.failure is not None:
        raise server.failure
