"""A model whose directory's name is no UTF-8."""

import json
import os
import shutil
from pathlib import Path

import httpx2
import pytest
from server_kit import serving

from colibri import LLM
from colibri.container.hubcache import model_name
from colibri.llm import embedded_model


@pytest.mark.parametrize(
    ("name", "called"), [(b"mod\xe9l", "mod?l"), (b"\xff\xfe", "??"), ("modèle".encode(), "modèle")]
)
def test_what_it_is_called(name: bytes, called: str) -> None:
    path = "/models/" + os.fsdecode(name)
    assert model_name(path, Path(path)) == called


def test_every_endpoint_answers(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"mod\xe9l")
    shutil.copytree(embedded_model(), path)
    asked = {"model": "x", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    with (
        LLM(path, ram="2GB") as llm,
        serving(llm) as running,
        httpx2.Client(base_url=running.url, timeout=60) as client,
    ):
        asked["model"] = client.get("/v1/models").json()["data"][0]["id"]
        for at in ("/health", "/v1/colibri/model", "/v1/colibri/atlas", "/v1/colibri/profile"):
            response = client.get(at)
            assert response.status_code == 200, (at, response.text)
            json.loads(response.content.decode())
        assert client.post("/v1/chat/completions", json=asked).status_code == 200
        streamed = client.post("/v1/chat/completions", json=asked | {"stream": True})
        assert streamed.text.rstrip().endswith("data: [DONE]")
