"""/v1/models."""

import httpx2


def test_models(http: httpx2.Client) -> None:
    (model,) = http.get("/v1/models").json()["data"]
    assert model["id"] == "demo"
    assert http.get("/v1/models/demo").json() == model
    refusal = http.get("/v1/models/gpt-4o")
    assert refusal.status_code == 404
    assert refusal.json()["error"]["code"] == "model_not_found"
