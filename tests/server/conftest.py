"""The embedded model, loaded once, and a server over it."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import httpx2
import openai
import pytest
from server_kit import Running, serving, thinking_model

from colibri import LLM


@pytest.fixture(scope="session")
def llm() -> Iterator[LLM]:
    with LLM(ram="2GB", context=2048) as model:
        yield model


@pytest.fixture(scope="session")
def server(llm: LLM) -> Iterator[Running]:
    with serving(llm) as running:
        yield running


@pytest.fixture(scope="session")
def http(server: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def openai_client(server: Running) -> Iterator[openai.OpenAI]:
    url = f"{server.url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def anthropic_client(server: Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    with LLM(
        thinking_model(tmp_path_factory.mktemp("models") / "thinker"), ram="2GB", context=2048
    ) as model:
        yield model
