"""POST /v1/colibri/atlas/build: an atlas is made beside the answers, and never by halves."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server_kit import Running, events, serving, slow_down

from colibri import LLM, SamplingParams
from colibri.lab.atlas.file import NAME, read_atlas
from colibri.llm import embedded_model
from colibri.server.colibri import atlas

BUILD = "/v1/colibri/atlas/build"
NAMES = ("law", "music", "code", "food")


@pytest.fixture(autouse=True)
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and short ones."""
    path = tmp_path / "prompts.json"
    topics = [{"name": n, "prompts": [f"{n} is one thing", f"{n} is another"]} for n in NAMES]
    path.write_text(json.dumps({"topics": topics}))
    monkeypatch.setattr(atlas, "own_prompts", lambda: path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models") / "bare"
    shutil.copytree(embedded_model(), made)
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LLM]:
    with LLM(folder, ram="2GB", context=512) as llm:
        yield llm


@pytest.fixture
def bare(model: LLM, folder: Path) -> Iterator[Running]:
    """A server of a model that has no atlas."""
    with serving(model) as running:
        (folder / NAME).unlink(missing_ok=True)
        yield running
        running.await_idle()


def built(running: Running) -> list[tuple[str, Any]]:
    return events(httpx2.post(running.url + BUILD, timeout=60))


def read(running: Running) -> httpx2.Response:
    return httpx2.get(running.url + "/v1/colibri/atlas", timeout=30)


def code(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_is_built_and_then_there(bare: Running, folder: Path, model: LLM) -> None:
    assert code(read(bare)) == (404, "no_atlas")
    learnt = model.usage.peek()[0].tokens
    *progress, (last, _) = built(bare)
    assert last == "done"
    assert {name for name, _ in progress} == {"progress"}
    done = [told["prompts_done"] for _, told in progress]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 8)
    assert progress[-1][1]["eta_seconds"] == 0
    assert [topic["name"] for topic in read(bare).json()["topics"]] == list(NAMES)
    assert [topic.prompts for topic in read_atlas(folder / NAME).topics] == [2] * 4
    assert model.usage.peek()[0].tokens == learnt  # nobody asked these


def test_answers_come_first(
    bare: Running, model: LLM, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(model, monkeypatch, 0.01)
    params = SamplingParams(max_tokens=400, ignore_eos=True)
    answer = model.stream("A cat", params)
    next(answer)
    with httpx2.stream("POST", bare.url + BUILD, timeout=60) as response:
        lines = (line for line in response.iter_lines() if line.startswith("data: "))
        waiting = [json.loads(next(lines)[6:]) for _ in range(2)]
        assert {told["state"] for told in waiting} == {"waiting"}
        next(answer)  # goes on meanwhile
        answer.close()
        states = [json.loads(line[6:]).get("state") for line in lines]
    assert states[-2:] == ["reading", None]
    assert (folder / NAME).is_file()


def test_whoever_asks_meanwhile_is_answered(bare: Running, folder: Path) -> None:
    texts = []
    body = {"prompt": "A cat", "max_tokens": 8, "temperature": 0, "ignore_eos": True}

    def ask() -> None:
        answer = httpx2.post(f"{bare.url}/v1/completions", json=body, timeout=60)
        texts.append(answer.json()["choices"][0]["text"])

    ask()
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    made = built(bare)
    for thread in threads:
        thread.join()
    assert made[-1][0] == "done"
    assert len(texts) == 4
    assert len(set(texts)) == 1
    alone = (folder / NAME).read_bytes()
    built(bare)
    assert (folder / NAME).read_bytes() == alone


def test_a_client_that_leaves_ends_it(
    bare: Running, model: LLM, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(folder)
    with monkeypatch.context() as slow:
        slow_down(model, slow, 0.3)
        with httpx2.stream("POST", bare.url + BUILD, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            assert bare.service.building
            second = httpx2.post(bare.url + BUILD, timeout=60)
            assert code(second) == (409, "building")
            rates = httpx2.post(bare.url + "/v1/colibri/rates", timeout=60)
            assert rates.status_code == 409
        for _ in range(200):
            if not bare.service.building:
                break
            threading.Event().wait(0.05)
    assert not bare.service.building
    assert files(folder) == before
    assert built(bare)[-1][0] == "done"


def test_a_server_that_stops_ends_it(
    model: LLM, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / NAME).unlink(missing_ok=True)
    slow_down(model, monkeypatch, 0.3)
    with (
        serving(model) as running,
        httpx2.stream("POST", running.url + BUILD, timeout=60) as response,
    ):
        lines = response.iter_lines()
        next(lines)
        running.service.state = "draining"
        assert "event: error" in list(lines)
    assert not (folder / NAME).exists()


def test_a_file_that_cannot_be_written_is_told(bare: Running, folder: Path) -> None:
    with httpx2.stream("POST", bare.url + BUILD, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        (folder / NAME).mkdir()  # comes in the way
        try:
            before = files(folder)
            *_, kind, said, _ = lines
            assert kind == "event: error"
            assert f"{NAME}: is no regular file" in said
            assert str(folder) not in said
            assert files(folder) == before
            early = httpx2.post(bare.url + BUILD, timeout=60)
        finally:
            (folder / NAME).rmdir()
    assert '"code":"atlas_unwritable"' in said
    assert early.status_code == 500
    assert early.json()["error"]["code"] == "atlas_unwritable"
    assert "there is a directory of that name" in early.json()["error"]["message"]
    assert str(folder) not in early.text


def test_a_pipe_in_its_place_is_refused_before_the_work(bare: Running, folder: Path) -> None:
    """Nobody reads it, and to write into it would wait for ever."""
    os.mkfifo(folder / NAME)
    try:
        refused = httpx2.post(bare.url + BUILD, timeout=60)
    finally:
        (folder / NAME).unlink()
    assert refused.status_code == 500
    assert "is no plain file" in refused.json()["error"]["message"]
    assert str(folder) not in refused.text


def test_a_folder_that_cannot_be_made_is_told_before_the_work(
    llm: LLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded model's atlas goes to the user's state."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with serving(llm) as running:
        answer = httpx2.post(running.url + BUILD, timeout=60)
    assert answer.status_code == 500
    assert "cannot be written: Not a directory" in answer.json()["error"]["message"]
    assert str(tmp_path) not in answer.text


@pytest.mark.parametrize("content", [b"{", b"{}", b'{"format": "colibri-atlas", "version": 9}'])
def test_one_that_cannot_be_read_is_built_anew(bare: Running, folder: Path, content: bytes) -> None:
    (folder / NAME).write_bytes(content)
    assert code(read(bare)) == (500, "atlas_unreadable")
    assert str(folder) not in read(bare).text
    assert built(bare)[-1][0] == "done"
    assert read(bare).status_code == 200


def test_the_users_own_that_cannot_be_read_is_replaced_where_it_is(
    bare: Running, folder: Path, model: LLM, tmp_path: Path
) -> None:
    """It is looked for first: one beside the model would never be seen."""
    own = tmp_path / "state" / "colibri" / "atlas" / f"{model.usage.subject.fingerprint}.{NAME}"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"{")
    assert code(read(bare)) == (500, "atlas_unreadable")
    assert built(bare)[-1][0] == "done"
    assert read(bare).status_code == 200
    assert not (folder / NAME).exists()


@pytest.mark.parametrize(
    "settings", [{"router": "cache-aware"}, {"expert_top_p": 0.5}, {"experts_per_token": 2}]
)
def test_approximate_routing_is_not_measured(folder: Path, settings: dict[str, Any]) -> None:
    (folder / NAME).unlink(missing_ok=True)
    with (
        LLM(folder, ram="2GB", context=256, **settings) as llm,
        serving(llm) as running,
    ):
        assert code(read(running)) == (404, "atlas_impossible")
        answer = httpx2.post(running.url + BUILD, timeout=60)
    assert answer.status_code == 400
    assert "the model's own routing" in answer.json()["error"]["message"]


def test_only_for_whom_the_rest_is_too(model: LLM, folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)
    with serving(model, api_key="secret") as running:
        assert httpx2.post(running.url + BUILD).status_code == 401
        headers = {"authorization": "Bearer secret", "origin": "http://elsewhere.example"}
        assert httpx2.post(running.url + BUILD, headers=headers).status_code == 403
        assert httpx2.get(running.url + BUILD).status_code == 401
        assert not running.service.building
    assert not (folder / NAME).exists()
