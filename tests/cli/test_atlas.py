import json
import shutil
from pathlib import Path

import pytest

from colibri.lab.atlas.file import NAME, read_atlas
from colibri.llm import embedded_model


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.json"
    topics = [{"name": n, "prompts": [f"{n} one two", f"{n} three"]} for n in ("a", "b", "c", "d")]
    path.write_text(json.dumps({"topics": topics}))
    return path


def test_show_of_the_embedded_model(coli, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    outcome = coli("atlas", "show")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == f"atlas        {embedded_model() / NAME}"
    assert lines[1].startswith("model        demo (")
    assert "128 in 4 layers" in lines[3]
    assert [line.split()[0] for line in lines[7:]][:3] == ["Python", "JavaScript", "SQL"]
    assert lines[7].count("%") == 5


def test_build_beside_the_model(coli, tmp_path, prompts):
    model = tmp_path / "demo"
    shutil.copytree(embedded_model(), model)
    (model / NAME).unlink()
    missing = coli("atlas", "show", str(model))
    assert missing.code == 2
    assert f"make one with coli atlas build {model}" in missing.err
    outcome = coli("atlas", "build", str(model), "--prompts", str(prompts), "--ram", "2GB")
    assert outcome.code == 0, outcome.err
    atlas = read_atlas(model / NAME)
    assert [topic.name for topic in atlas.topics] == ["a", "b", "c", "d"]
    assert coli("atlas", "show", str(model)).out == outcome.out
    assert not (model / ".coli_usage").exists()


def test_build_of_the_embedded_model_goes_to_the_users_state(coli, monkeypatch, tmp_path, prompts):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    outcome = coli("atlas", "build", "--prompts", str(prompts), "--ram", "2GB")
    assert outcome.code == 0, outcome.err
    (path,) = (tmp_path / "state/colibri/atlas").iterdir()
    assert path.name.endswith(NAME)
    assert str(path) in coli("atlas", "show").out


def test_one_in_the_users_state_is_replaced_there(coli, monkeypatch, tmp_path, prompts):
    """It is looked for first: one beside the model would never be seen."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    model = tmp_path / "demo"
    shutil.copytree(embedded_model(), model)
    (model / NAME).unlink()
    assert coli("atlas", "build", "--prompts", str(prompts), "--ram", "2GB").code == 0
    (own,) = (tmp_path / "state/colibri/atlas").iterdir()
    own.write_text("{}")
    outcome = coli("atlas", "build", str(model), "--prompts", str(prompts), "--ram", "2GB")
    assert outcome.code == 0, outcome.err
    assert coli("atlas", "show", str(model)).out == outcome.out
    assert not (model / NAME).exists()


def test_a_state_folder_that_cannot_be_made(coli, monkeypatch, tmp_path, prompts):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    outcome = coli("atlas", "build", "--prompts", str(prompts), "--ram", "2GB")
    assert outcome.code == 4
    assert "cannot be written: Not a directory" in outcome.err


def test_build_elsewhere(coli, tmp_path, prompts):
    out = tmp_path / "some.json"
    assert (
        coli("atlas", "build", "--prompts", str(prompts), "-o", str(out), "--ram", "2GB").code == 0
    )
    shown = coli("atlas", "show", "--file", str(out))
    assert "4 topics" in shown.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--out", "no/such/folder/x.json"), "there is no directory"),
        (("--prompts", "nowhere.json"), "nowhere.json"),
        (("--router", "cache-aware"), "the model's own routing"),
        (("--expert-top-p", "0.5"), "the model's own routing"),
        (("--experts-per-token", "2"), "the model's own routing"),
    ],
)
def test_refused_before_the_model_is_loaded(coli, arguments, says):
    outcome = coli("atlas", "build", *arguments)
    assert outcome.code in (2, 4)  # 4: a file
    assert says in outcome.err
    assert outcome.out == ""


def test_a_damaged_file(coli, tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{}")
    outcome = coli("atlas", "show", "--file", str(path))
    assert outcome.code != 0
    assert "no atlas of coli" in outcome.err
