"""The model page's facts: the plan against what happened, the machine, usage."""

from __future__ import annotations

import httpx2
import pytest
from server_kit import Running, Scripted, serving

from colibri import LLM
from colibri.planner.forecast import Rates
from colibri.server.colibri import overview


def test_facts(http: httpx2.Client, llm: LLM) -> None:
    http.post("/v1/completions", json={"prompt": "A cat", "max_tokens": 5, "ignore_eos": True})
    told = http.get("/v1/colibri/model").json()
    assert told["id"] == "demo"
    assert told["load_line"] == llm.load_line
    assert told["memory"]["budget_bytes"] == 2_000_000_000
    assert told["memory"]["peak_rss_bytes"] >= told["memory"]["rss_bytes"] > 1e7
    assert told["machine"]["threads"] >= 1
    assert told["machine"]["memory_bytes"] > 1e9
    assert told["settings"]["policy"] == llm.config.policy
    # 4 of each of 4 layers, but of a step that was given up in its middle
    assert 0 < told["usage"]["selections"] <= told["usage"]["tokens"] * 16
    assert [part["part"] for part in told["usage"]["hottest"]] == [0.1, 0.25, 0.5]
    assert told["pins"]["experts"] == 0
    rows = {row["name"]: row for row in told["outcome"]}
    assert list(rows) == ["loaded", "peak", "hit rate", "disk per token", "speed"]
    assert rows["loaded"]["measured"] == told["memory"]["loaded_rss_bytes"]
    assert rows["speed"]["planned"] is None  # nobody had the machine measured
    assert told["rates"] is None


def test_folders_of_the_server_are_not_told(http: httpx2.Client, llm: LLM) -> None:
    told = http.get("/v1/colibri/model")
    assert told.json()["path"] == "colibri-demo"
    assert all("/" not in drive["directory"] for drive in told.json()["drives"])
    assert "/" not in (told.json()["usage"]["path"] or "")
    assert str(llm.container.path.parent) not in told.text


def test_the_machine_is_measured_on_demand(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_measured", lambda _llm: Rates(1e10, 1e9, 5e9))
    with serving(llm) as running, httpx2.Client(base_url=running.url, timeout=30) as http:
        rates = http.post("/v1/colibri/rates").json()
        assert rates == {"bytes_per_second": {"memory": 1e10, "disk": 1e9, "compute": 5e9}}
        told = http.get("/v1/colibri/model").json()
    assert told["rates"] == rates
    speed = next(row for row in told["outcome"] if row["name"] == "speed")
    assert speed["planned"] > 0


def test_a_busy_machine_is_not_measured(llm: LLM) -> None:
    scripted = Scripted(llm, lambda _request: [])

    class Busy:
        running, waiting = (object(),), 0

    scripted.status = lambda: Busy()  # type: ignore[attr-defined]
    with serving(scripted) as running:
        answer = httpx2.post(f"{running.url}/v1/colibri/rates", timeout=30)
        del scripted.status  # type: ignore[attr-defined]
    assert answer.status_code == 409
    assert "idle" in answer.json()["error"]["message"]


def test_experts_have_heat_and_age(server: Running, http: httpx2.Client) -> None:
    http.post("/v1/completions", json={"prompt": "A cat", "max_tokens": 5, "ignore_eos": True})
    server.await_idle()
    for layer in http.get("/v1/colibri/experts?heat=1").json()["layers"]:
        assert len(layer["heat"]) == len(layer["ago"]) == layer["experts"]
        assert min(ago for ago in layer["ago"] if ago >= 0) == 0
        assert all(
            (ago == -1) == (heat == 0)
            for ago, heat in zip(layer["ago"], layer["heat"], strict=True)
        )
