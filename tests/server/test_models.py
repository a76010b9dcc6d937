"""/v1/models."""

import shutil
from pathlib import Path

import httpx2
from server_kit import serving

from colibri import LLM
from colibri.llm import embedded_model


def test_models(http: httpx2.Client) -> None:
    (model,) = http.get("/v1/models").json()["data"]
    assert model["id"] == "demo"
    assert http.get("/v1/models/demo").json() == model
    assert model["embedded"]
    assert model["capabilities"] == {
        "text": True,
        "chat": True,
        "thinking": False,
        "reasoning_efforts": [],
        "tools": False,
    }
    refusal = http.get("/v1/models/gpt-4o")
    assert refusal.status_code == 404
    assert refusal.json()["error"]["code"] == "model_not_found"


def test_a_model_without_a_tokenizer_says_so_and_does_not_advise_a_template(tmp_path: Path) -> None:
    """Its chat template is of no use to it."""
    folder = shutil.copytree(embedded_model(), tmp_path / "dumb")
    (folder / "tokenizer.json").unlink()
    with (
        LLM(folder, ram="2GB", context=512) as llm,
        serving(llm) as running,
        httpx2.Client(base_url=running.url, timeout=30) as http,
    ):
        (model,) = http.get("/v1/models").json()["data"]
        assert not model["embedded"]
        assert (model["capabilities"]["text"], model["capabilities"]["chat"]) == (False, False)
        body = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
        refusal = http.post("/v1/chat/completions", json=body)
        assert refusal.status_code == 400
        assert "no tokenizer.json" in refusal.json()["error"]["message"]
        ids = {"prompt": [5, 6], "max_tokens": 2, "ignore_eos": True}
        assert http.post("/v1/completions", json=ids).status_code == 200
