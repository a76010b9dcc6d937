"""`coli doctor` as a user types it."""

import json

import pytest

from colibri.hardware import iobench
from colibri.hardware.iobench import DiskRate


@pytest.fixture(autouse=True)
def _measured_disk(monkeypatch):
    monkeypatch.setattr(iobench, "disk_bandwidth", lambda *a, **k: DiskRate(2e9, True, 1 << 20))


def test_the_embedded_model_is_ready(coli):
    done = coli("doctor")
    assert done.code == 0, done.err
    assert "pass  model.tensors" in done.out
    assert done.out.splitlines()[-1].endswith(("ready", "with warnings"))


def test_json_holds_every_finding(coli):
    done = coli("doctor", "--json", "--deep", "--sample", "5")
    report = json.loads(done.out)
    assert report["format"] == 1
    assert report["verdict"].startswith("ready")
    (records,) = [f for f in report["findings"] if f["check"] == "model.records"]
    assert records["what"].startswith("5 of ")
    assert set(records) == {"check", "status", "what", "where", "fix"}


def test_a_directory_that_is_no_model_is_not_ready(coli, tmp_path):
    done = coli("doctor", str(tmp_path))
    assert done.code == 7
    assert "holds no config.json" in done.out
    assert "->" in done.out
    assert done.out.splitlines()[-1] == f"{tmp_path}: not ready"


def test_a_bad_variable_is_a_finding_and_a_bad_flag_an_error(coli, monkeypatch):
    monkeypatch.setenv("COLI_RAM", "much")
    done = coli("doctor")
    assert done.code == 7
    assert "COLI_RAM" in done.out
    assert coli("doctor", "--ram", "much").code == 2


def test_a_model_that_does_not_fit_is_not_ready(coli):
    done = coli("doctor", "--ram", "50MB")
    assert done.code == 7
    assert "fail  memory.plan" in done.out


def test_sample_needs_deep(coli):
    done = coli("doctor", "--sample", "3")
    assert done.code == 2
    assert "--deep" in done.err
