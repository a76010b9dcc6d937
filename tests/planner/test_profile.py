"""Profiles: kept whole, taken only where they fit, below everything that was asked for."""

import json
import shutil

import pytest

from colibri.cli.options import take_config
from colibri.config import SETTINGS
from colibri.container.writer import FileWriter
from colibri.errors import CapacityError, ConfigError, ContainerError
from colibri.hardware.storage import Storage
from colibri.llm import LLM, embedded_model
from colibri.planner import profile as profiles
from colibri.planner.profile import Machine, Profile, fingerprint, load, profile_path, read, save


@pytest.fixture
def model(tmp_path):
    return shutil.copytree(embedded_model(), tmp_path / "demo")


@pytest.fixture
def environ(monkeypatch, tmp_path):
    found = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    for name in ("COLI_PROFILE", "COLI_THREADS", "COLI_READERS", "COLI_CONFIG", "COLI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", found["XDG_CONFIG_HOME"])
    return found


def make(model, others=(), **settings):
    return Profile(
        machine=Machine.here(model, others), model=fingerprint(model, others), name=model.name,
        settings=settings or {"readers": 2, "cache_share": 50}, gain=0.1, base_tps=10.0, tps=11.0,
        noise=0.01, colibri="0", tuned_unix=0,
    )  # fmt: skip


def kept(model, environ, **settings):
    path = profile_path(model, environ)
    save(path, make(model, **settings))
    return path


def config(model, **flags):
    return take_config({s.field: None for s in SETTINGS} | {"model": str(model)} | flags)


def test_a_profile_comes_back(model, environ):
    path = kept(model, environ)
    assert load(path, model) == make(model)
    assert path.parent.name == "tune"
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_it_is_taken_below_all_that_was_asked_for(model, environ, monkeypatch):
    path = kept(model, environ, readers=2, cache_share=50, threads=1)
    monkeypatch.setenv("COLI_READERS", "7")
    found = config(model, threads="2")
    assert (found.threads, found.readers, found.cache_share) == (2, 7, 50)
    assert found.profile == str(path)


def test_it_is_named_in_the_load_line(model, environ):
    path = kept(model, environ, cache_share=50)
    with LLM.from_config(config(model, ram="1GB", context="64")) as llm:
        assert f"profile {path.name}" in llm.load_line
        assert set(llm.plan.slots.values()) == {16}


def test_off_is_off_and_no_profile_is_no_news(model, environ, capsys):
    assert config(model).profile == "auto"
    kept(model, environ)
    found = config(model, profile="off")
    assert (found.readers, found.profile) == (4, "off")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda p: p.write_text("{"), "no profile"),
        (lambda p: p.write_text(p.read_text().replace('"readers": 2', '"readers": 3')), "changed"),
        (lambda p: p.write_text(""), "no profile"),
        (lambda p: p.write_bytes(b"\xff" * 100), "no profile"),
    ],
)
def test_a_damaged_profile_is_a_warning_and_not_used(model, environ, capsys, damage, word):
    path = kept(model, environ)
    damage(path)
    found = config(model)
    assert (found.readers, found.profile) == (4, "auto")
    assert word in capsys.readouterr().err
    with pytest.raises(ContainerError, match=word):
        read(path)


def test_another_version_is_refused(model, environ, tmp_path):
    path = kept(model, environ)
    data = json.loads(path.read_text())
    data["profile"]["version"] = 9
    path.write_text(json.dumps(data))
    with pytest.raises(ContainerError, match="version 9"):
        read(path)


@pytest.mark.parametrize("settings", [{"trunk_bits": 4}, {"readers": 0}, {"nothing": 1}])
def test_a_profile_holds_only_settings_of_speed(model, environ, settings):
    path = kept(model, environ, **settings)
    with pytest.raises(ConfigError):
        read(path)


def test_another_model_or_machine_has_another_profile(model, environ, monkeypatch, tmp_path):
    path = kept(model, environ)
    other = shutil.copytree(model, tmp_path / "other")
    (other / "config.json").write_text((other / "config.json").read_text() + " ")
    assert profile_path(other, environ) != path
    with pytest.raises(ConfigError, match="another model"):
        load(path, other)
    here = Machine.here(model)
    elsewhere = Machine(here.cpu, here.cores + 1, here.memory_bytes, here.disk)
    monkeypatch.setattr(profiles.Machine, "here", lambda model, others: elsewhere)
    with pytest.raises(ConfigError, match="another machine"):
        load(path, model)


def test_shards_on_other_drives_are_part_of_the_model(model, environ, monkeypatch, tmp_path):
    """--model-dirs: a profile follows the weights and the disks they lie on."""
    whole = fingerprint(model)
    other = tmp_path / "drive"
    other.mkdir()
    shard = sorted(model.glob("experts-*.safetensors"))[0]
    moved = shard.rename(other / shard.name)
    assert fingerprint(model) != fingerprint(model, [other]) == whole
    here = profile_path(model, environ, [other])
    save(here, make(model, others=[other], readers=2))
    assert config(model, model_dirs=str(other)).readers == 2
    with moved.open("ab") as file:  # another conversion's shard
        file.write(b"\0" * 64)
    assert profile_path(model, environ, [other]) != here
    assert config(model, model_dirs=str(other)).readers == 4
    with pytest.raises(ConfigError, match="another model"):
        load(here, model, [other])


def test_the_disks_of_all_directories_are_the_machine(model, monkeypatch, tmp_path):
    """A disk counts once however many directories lie on it."""
    assert Machine.here(model, [tmp_path]) == Machine.here(model)
    monkeypatch.setattr(
        profiles, "storage_of", lambda path: Storage("ext4", path.name, path.name, False)
    )
    assert Machine.here(model, [tmp_path / "b"]).disk == "demo + b"


def test_a_profile_asked_for_by_name_must_fit(model, environ, tmp_path):
    path = kept(model, environ)
    assert config(model, profile=str(path)).readers == 2
    with pytest.raises(ContainerError, match="no such file"):
        config(model, profile=str(tmp_path / "none.json"))


def test_a_full_disk_leaves_the_old_profile(model, environ, monkeypatch):
    path = kept(model, environ)
    before = path.read_bytes()

    def full(self, chunks, step=None):
        raise CapacityError("the disk is full")

    monkeypatch.setattr(FileWriter, "fill", full)
    with pytest.raises(CapacityError):
        save(path, make(model, readers=8))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_without_a_home_there_is_no_profile(model):
    assert profile_path(model, {}) is None
