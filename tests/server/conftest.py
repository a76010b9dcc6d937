"""The embedded model, loaded once, and a server over it."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import httpx2
import openai
import pytest
from server_kit import Running, serving

from colibri import LLM
from colibri.llm import embedded_model


@pytest.fixture(scope="session")
def llm() -> Iterator[LLM]:
    with LLM(ram="800MB", context=2048) as model:
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
    """The same model with its family's own template, which knows reasoning and tools."""
    folder = tmp_path_factory.mktemp("models") / "thinker"
    folder.mkdir()
    for path in embedded_model().iterdir():
        if path.name != "chat_template.jinja" and path.is_file():
            (folder / path.name).symlink_to(path)
    with LLM(folder, ram="800MB", context=2048) as model:
        yield model
