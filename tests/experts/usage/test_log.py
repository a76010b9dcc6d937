import logging
import os

import pytest
from usage_kit import HALF_LIFE, SUBJECT, counted, select, usage_file, usage_log

from colibri.errors import ConfigError
from colibri.experts.usage import file as usagefile
from colibri.experts.usage.log import UsageLog, usage_path


def test_what_was_saved_is_known_and_what_is_new_comes_on_top(tmp_path):
    first = usage_log(tmp_path / "u")
    select(first.recorder, 1, 3)
    first.save()
    second = usage_log(tmp_path / "u")
    select(second.recorder, 2)
    assert second.counts().heat[1].round(3).tolist() == [0, 3, 1, 0]
    assert usage_file(tmp_path / "u").read().counts.tokens == 3
    second.save()
    second.save()
    assert usage_file(tmp_path / "u").read().counts.tokens == 4
    assert second.counts().tokens == 4


def test_a_process_learns_from_the_others_when_it_saves(tmp_path):
    one, other = usage_log(tmp_path / "u"), usage_log(tmp_path / "u")
    select(other.recorder, 3, 10)
    other.save()
    select(one.recorder, 0)
    one.save()
    assert one.counts().heat[2].round(3).tolist() == [1, 0, 0, 10]


def test_nothing_is_written_where_nothing_was_counted(tmp_path):
    usage_log(tmp_path / "u").save()
    assert os.listdir(tmp_path) == []


def test_without_a_file_counts_live_as_long_as_the_process():
    log = UsageLog(SUBJECT, HALF_LIFE, None)
    log.load(named=False)
    select(log.recorder, 1)
    log.save()
    assert log.counts().tokens == 1


def test_a_failing_save_is_said_once_and_made_up_for(tmp_path, caplog):
    path, lock = tmp_path / "new" / "u", tmp_path / "new" / "u.lock"
    lock.mkdir(parents=True)  # where a file should be
    log = usage_log(path)
    for _ in range(3):
        select(log.recorder, 1)
        log.save()
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "not saved" in caplog.text
    lock.rmdir()
    select(log.recorder, 1)
    log.save()
    assert usage_file(path).read().counts.tokens == 4


def test_who_waited_in_vain_for_the_lock_does_not_wait_again(tmp_path, monkeypatch, caplog):
    import fcntl
    import time

    monkeypatch.setattr(usagefile, "_LOCK_SECONDS", 0.05)
    log = usage_log(tmp_path / "u")
    slept = []
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.append(seconds))
    with open(tmp_path / "u.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(2):
            select(log.recorder, 1)
            log.save()
            waited = len(slept) > 0
            slept.clear()
    assert not waited
    assert len(caplog.records) == 1
    log.save()
    assert usage_file(tmp_path / "u").read().counts.tokens == 2


def test_a_damaged_file_is_said_once(tmp_path, caplog):
    usage_file(tmp_path / "u").add(counted(1, 5))
    with open(tmp_path / "u", "ab") as file:
        file.write(b"nonsense\nmore\n")
    log = usage_log(tmp_path / "u")
    select(log.recorder, 1)
    log.save()
    (record,) = caplog.records
    assert "line 4 is damaged" in record.getMessage()
    assert "(and 1 more)" in record.getMessage()
    assert log.counts().tokens == 6


def test_a_foreign_file_starts_anew_unless_the_user_named_it(tmp_path, caplog):
    """B034."""
    path = tmp_path / "u"
    other = usagefile.Subject("llama", "f" * 16, {1: 8})
    none = usagefile.Counts.none(other.experts)
    data = usagefile.encode(none, other, 1000)
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"'llama', another model.*name another file"):
        usage_log(path, named=True)
    assert not caplog.records
    log = usage_log(path)
    assert "'llama', another model" in caplog.text
    select(log.recorder, 1)
    log.save()
    (aside,) = tmp_path.glob("u.*.old")
    assert aside.read_bytes() == data


def test_what_the_user_named_and_cannot_be_read_is_refused(tmp_path, caplog):
    with pytest.raises(ConfigError, match=r"--usage .*is a directory; name a file in it"):
        usage_log(tmp_path, named=True)
    assert not caplog.records
    usage_log(tmp_path)
    assert "is a directory" in caplog.text


def test_where_usage_is_kept(tmp_path):
    def path(wish, *, embedded=False, **environ):
        return usage_path(wish, tmp_path, SUBJECT, environ, embedded=embedded)

    assert path("off") is None
    assert str(path("/some/file")) == "/some/file"
    assert path("auto") == tmp_path / ".coli_usage"
    name = "colibri/usage/0123456789abcdef.coli_usage"
    assert str(path("auto", embedded=True, HOME="/home/me")) == f"/home/me/.local/state/{name}"
    assert str(path("auto", embedded=True, XDG_STATE_HOME="/s", HOME="/h")) == f"/s/{name}"
    assert path("auto", embedded=True) is None


def test_a_model_that_cannot_be_written_has_its_usage_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = usage_path("auto", tmp_path, SUBJECT, {"HOME": "/home/me"}, embedded=False)
    assert str(found).startswith("/home/me/.local/state/colibri/usage/")
