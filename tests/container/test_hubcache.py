"""Models in the cache of Hugging Face's hub, as its tools lay them out."""

import os
from pathlib import Path

import pytest

import golden
from colibri.cli import app
from colibri.container.hubcache import (
    HubModel,
    hub_folder,
    hub_id,
    hub_models,
    located,
    model_name,
)
from colibri.errors import ContainerError
from colibri.llm import LLM

COMMIT = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"


def cached(hub: Path, name: str, commit: str = COMMIT, *, main: str | None = COMMIT) -> Path:
    """The tiny olmoe as `hf download` would have put it there."""
    repository = hub / ("models--" + name.replace("/", "--"))
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir(exist_ok=True)
    for number, file in enumerate(sorted(golden.tiny("olmoe").iterdir())):
        blob = repository / "blobs" / f"{commit[:6]}{number}"
        blob.write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(Path("../../blobs") / blob.name)
    if main is not None:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(main)
    return snapshot


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def environ(hub: Path) -> dict[str, str]:
    return {"HF_HUB_CACHE": str(hub)}


def test_where_the_cache_is() -> None:
    assert hub_folder({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert hub_folder({"HF_HOME": "/b", "HOME": "/h"}) == Path("/b/hub")
    assert hub_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/huggingface/hub")
    assert hub_folder({"HOME": "/h"}) == Path("/h/.cache/huggingface/hub")
    assert hub_folder({}) is None


def test_every_name_of_a_cached_model_is_its_snapshot(hub: Path) -> None:
    snapshot = cached(hub, "allenai/OLMoE-tiny")
    repository = snapshot.parents[1]
    for name in ("allenai/OLMoE-tiny", repository, repository / "snapshots", snapshot):
        assert located(str(name), environ(hub)) == snapshot
    assert hub_id(snapshot) == "allenai/OLMoE-tiny"
    assert hub_id(repository) is None
    for named in ("allenai/OLMoE-tiny", str(snapshot)):
        assert model_name(named, located(named, os.environ)) == "allenai/OLMoE-tiny"
    assert list(hub_models(environ(hub))) == [HubModel("allenai/OLMoE-tiny", snapshot)]


def test_a_directory_of_that_name_comes_first(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(hub, "a/b")
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert located("a/b", environ(hub)) == Path("a/b")


def test_the_snapshot_is_the_one_that_main_names(hub: Path) -> None:
    first = cached(hub, "a/b", "1" * 40, main=None)
    assert located("a/b", environ(hub)) == first
    second = cached(hub, "a/b", "2" * 40, main="2" * 40)
    assert located("a/b", environ(hub)) == second
    (hub / "models--a--b" / "refs" / "main").unlink()
    with pytest.raises(ContainerError, match=r"no refs/main; name one of 1{40}, 2{40}"):
        located("a/b", environ(hub))
    (hub / "models--a--b" / "refs" / "main").write_text("3" * 40)
    with pytest.raises(ContainerError, match=r"names 3{40}, which is not there"):
        located("a/b", environ(hub))
    (found,) = hub_models(environ(hub))
    assert (found.id, found.path) == ("a/b", hub / "models--a--b")
    assert "which is not there" in str(found.problem)


def test_a_download_without_a_snapshot(hub: Path) -> None:
    (hub / "models--a--b" / "blobs").mkdir(parents=True)
    for name in ("a/b", str(hub / "models--a--b")):
        with pytest.raises(ContainerError, match="no snapshot of it; `hf download a/b`"):
            located(name, environ(hub))


def test_what_is_not_there_says_how_to_get_it(hub: Path) -> None:
    with pytest.raises(ContainerError, match="`hf download Qwen/Qwen3-30B-A3B`"):
        located("Qwen/Qwen3-30B-A3B", environ(hub))
    for address in ("https://huggingface.co/Qwen/Q3", Path("https://huggingface.co/Qwen/Q3/tree")):
        with pytest.raises(ContainerError, match=r"an address.*`hf download Qwen/Q3`"):
            located(address, environ(hub))
    # No name of the hub, and so a path that is not there.
    for name in ("models", "./a/b", "/a/b", "a/b/c", "~/models", "a\\b", "../b"):
        assert located(name, environ(hub)) == Path(name)


def test_commands_and_the_library_take_the_name(
    hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = cached(hub, "a/b")
    assert app.run(["info", "a/b"]) == 0
    assert str(snapshot) in capsys.readouterr().out
    with LLM("a/b", ram="2GB", usage="off") as llm:
        assert len(llm.generate([5, 6]).token_ids) > 0
    assert app.run(["run", "-m", "a/c", "hi"]) == 4
    error = capsys.readouterr().err
    assert error.count("hf download a/c") == 1


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "generation_config.json"])
def test_a_link_that_leads_nowhere_is_named(
    hub: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    snapshot = cached(hub, "a/b")
    (snapshot / name).resolve().unlink()
    assert app.run(["info", "a/b"]) == 4
    assert f"{name}: is a link to ../../blobs/" in capsys.readouterr().err


def test_nor_is_a_tokenizer_there_that_is_only_a_link(
    hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = cached(hub, "a/b")
    (snapshot / "tokenizer.json").symlink_to("../../blobs/none")
    assert app.run(["info", "a/b"]) == 0
    out = capsys.readouterr().out
    assert "tokenizer.json: is a link to ../../blobs/none, which is not there" in out
    assert app.run(["run", "-m", "a/b", "hi"]) == 4
    assert "tokenizer.json: is a link" in capsys.readouterr().err
    assert app.run(["convert", "a/b", str(hub.parent / "out")]) == 4
    assert "tokenizer.json: is a link" in capsys.readouterr().err
