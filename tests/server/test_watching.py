"""What the server tells of itself: health, metrics, the plan, the experts, its description."""

from __future__ import annotations

import json

import httpx2
import pytest
from server_kit import Running, serving

from colibri import LLM
from colibri.config import EngineConfig
from colibri.server.app import ROUTES
from colibri.server.watch.profile import SampledClock


def metrics(http: httpx2.Client) -> dict[str, float]:
    lines = http.get("/metrics").text.splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_health(http: httpx2.Client) -> None:
    health = http.get("/health").json()
    assert health["status"] == "ready"
    assert health["model"] == "demo"
    assert health["running"] == []
    assert http.get("/health/live").json() == {"status": "live"}


def test_metrics_count_what_was_served(llm: LLM) -> None:
    with serving(llm) as running, httpx2.Client(base_url=running.url) as http:
        before = metrics(http)
        answer = http.post(
            "/v1/completions", json={"prompt": "A cat", "max_tokens": 5, "ignore_eos": True}
        )
        usage = answer.json()["usage"]
        http.post("/v1/completions", json={"prompt": 5})
        now = metrics(http)

    def grown(name: str) -> float:
        return now[name] - before.get(name, 0)

    assert grown('colibri_http_requests_total{endpoint="completions",status="200"}') == 1
    assert grown('colibri_http_requests_total{endpoint="completions",status="400"}') == 1
    assert grown('colibri_answers_total{reason="length"}') == 1
    assert grown("colibri_prompt_tokens_total") == usage["prompt_tokens"]
    assert grown("colibri_generation_tokens_total") == 5
    assert grown("colibri_time_to_first_token_seconds_count") == 1
    assert grown("colibri_decode_tokens_total") >= 4
    assert grown("colibri_hits_total") > 0
    assert now["colibri_rss_bytes"] > 1e7


def test_metrics_have_no_label_that_clients_can_make_up(http: httpx2.Client) -> None:
    for path in ("/a", "/b", "/v1/models/x", "/v1/models/y"):
        http.get(path)
    names = [name for name in metrics(http) if name.startswith("colibri_http_requests_total{")]
    known = {name for *_, name in ROUTES} | {"other"}
    assert {name.split('"')[1] for name in names} <= known


def test_two_servers_have_metrics_of_their_own(llm: LLM) -> None:
    with serving(llm) as one, serving(llm) as two:
        httpx2.post(f"{one.url}/v1/completions", json={"prompt": "A cat", "max_tokens": 1})
        with httpx2.Client(base_url=two.url) as http:
            assert metrics(http)["colibri_generation_tokens_total"] == 0


def test_plan(http: httpx2.Client, llm: LLM) -> None:
    plan = http.get("/v1/colibri/plan").json()
    assert plan["budget_bytes"] == 2_000_000_000
    assert sum(item["bytes"] for item in plan["items"]) == plan["peak_bytes"]
    assert len(plan["layers"]) == len(llm.plan.slots)


def test_experts(http: httpx2.Client, llm: LLM) -> None:
    layers = http.get("/v1/colibri/experts").json()["layers"]
    assert [layer["layer"] for layer in layers] == sorted(llm.plan.slots)
    for layer in layers:
        bits = int.from_bytes(bytes.fromhex(layer["resident"]), "little")
        resident = {i for i in range(layer["experts"]) if bits >> i & 1}
        assert resident == llm.experts.resident(layer["layer"])
        assert layer["resident_count"] == len(resident) <= layer["slots"]


def test_profile_adds_up() -> None:
    """B103: what the phases say is what the steps took."""
    clock = SampledClock()
    config = EngineConfig(ram="2GB", context=256)
    with LLM.from_config(config, clock=clock) as llm, serving(llm) as running:
        running.service.clock = clock
        clock.watch(llm.experts)
        body = {"prompt": "A cat and a dog", "max_tokens": 40, "ignore_eos": True}
        httpx2.post(f"{running.url}/v1/completions", json=body)
        profile = httpx2.get(f"{running.url}/v1/colibri/profile").json()
    for kind in ("prefill", "decode"):
        told = profile[kind]
        assert told["steps"] > 0
        assert sum(told["phases"].values()) == pytest.approx(told["seconds"], rel=0.02)


def test_events_tell_what_happens(server: Running) -> None:
    with httpx2.stream("GET", f"{server.url}/v1/colibri/events", timeout=10) as response:
        lines = response.iter_lines()
        assert next(lines) == "event: status"
        status = json.loads(next(lines).removeprefix("data: "))
        assert status["waiting"] == 0
        assert status["total"]["decode_tokens"] >= 0


def test_description_names_every_path(http: httpx2.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    hidden = {"/metrics", "/openapi.json", "/v1/colibri/stop", "/v1/colibri/events"}
    hidden |= {"/v1/colibri/routing", "/v1/colibri/rates", "/v1/colibri/atlas/build"}
    paths = {path.replace("{id:path}", "{id}") for path, *_ in ROUTES} - hidden
    assert set(document["paths"]) == paths
    chat = document["components"]["schemas"]["ChatBody"]
    assert chat["additionalProperties"] is False
    assert chat["properties"]["temperature"]["anyOf"][0]["maximum"] == 2
