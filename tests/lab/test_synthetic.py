"""Synthetic containers are real ones: the ordinary reader opens them, the ordinary model runs."""

import numpy as np
import pytest
from lab_kit import FLASH, GLM, OLMOE

from colibri import LLM
from colibri.container.reader import open_container
from colibri.container.spec import verify_record
from colibri.errors import CapacityError, ConfigError
from colibri.lab import folder, synthetic
from colibri.lab.synthetic import Recipe
from colibri.models.registry import family_for


@pytest.mark.parametrize("shape", [OLMOE, GLM, FLASH], ids=lambda s: s.name)
@pytest.mark.parametrize("trunk", [4, 8, "source"])
def test_runs_with_ordinary_logits(shape, trunk, tmp_path):
    path = synthetic.ensure(Recipe(shape, trunk), tmp_path)
    with LLM(path, ram="1GB") as llm:
        logits = llm.forward(list(range(20)))
        answer = llm.generate([1, 2, 3])
    assert np.isfinite(logits).all()
    assert 0.2 < logits.std() < 5
    assert answer.token_ids


def test_records_carry_right_checksums(tmp_path):
    path = synthetic.ensure(Recipe(OLMOE), tmp_path)
    container = open_container(path, lambda c: family_for(c).weights_of(c))
    for number, layer in container.expert_layers().items():
        for expert in range(layer.num_experts):
            (span,) = layer.reads(expert)
            data = np.fromfile(span.file, np.uint8, span.nbytes, offset=span.offset)
            verify_record(data, number, expert, "test")


def test_a_complete_one_is_reused_and_a_cut_one_made_again(tmp_path):
    path = synthetic.ensure(Recipe(OLMOE), tmp_path)
    trunk = path / "trunk.safetensors"
    made = trunk.stat().st_ino
    assert synthetic.ensure(Recipe(OLMOE), tmp_path) == path
    assert trunk.stat().st_ino == made
    data = trunk.read_bytes()
    trunk.write_bytes(data[:-1])
    synthetic.ensure(Recipe(OLMOE), tmp_path)
    assert trunk.read_bytes() == data


def test_another_is_deleted_first_and_nothing_foreign(tmp_path):
    first = synthetic.ensure(Recipe(OLMOE), tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "colibri.json").write_text("{}")
    said = []
    second = synthetic.obtain(Recipe(GLM), tmp_path, said.append)
    assert any("deleting" in line and str(first) in line for line in said)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["mine", second.name])
    assert (tmp_path / "mine" / "colibri.json").exists()


def test_a_folder_of_others_is_refused(tmp_path):
    taken = tmp_path / Recipe(OLMOE).name
    taken.mkdir()
    (taken / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="no folder of the bench"):
        synthetic.ensure(Recipe(OLMOE), tmp_path)
    assert (taken / "config.json").read_text() == "{}"


def test_a_full_disk_is_refused_with_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "free_bytes", lambda directory: 1000)
    with pytest.raises(CapacityError, match="are missing"):
        synthetic.ensure(Recipe(OLMOE), tmp_path)
