"""The embedded model, loaded once, and a server over it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from server_kit import Running, serving

from colibri import LLM


@pytest.fixture(scope="session")
def llm() -> Iterator[LLM]:
    with LLM(ram="800MB", context=2048) as model:
        yield model


@pytest.fixture(scope="session")
def server(llm: LLM) -> Iterator[Running]:
    with serving(llm) as running:
        yield running


@pytest.fixture(scope="session")
def http(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client
