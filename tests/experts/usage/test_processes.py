"""Processes that share a model's usage, killed at any moment (B035)."""

import contextlib
import multiprocessing
import os
import random
import signal

import pytest
import usage_kit
from usage_kit import usage_file

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["usage_kit"])


class Saver:
    """A process that saves turn after turn; `saved` counts those that it knows to be saved."""

    def __init__(self, path, expert, turns=10**6):
        self._read, write = os.pipe()
        os.set_inheritable(write, True)
        self.saved = 0
        self._process = CONTEXT.Process(
            target=_save, args=(path, expert, CONTEXT.reducer.DupFd(write), turns)
        )
        self._process.start()
        os.close(write)

    def wait_for_turns(self, turns):
        for _ in range(turns):
            self.saved += len(os.read(self._read, 1))

    def kill(self):
        assert self._process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)

    def end(self):
        self._process.join()
        while read := os.read(self._read, 4096):
            self.saved += len(read)
        os.close(self._read)


def _save(path, expert, acknowledge, turns):
    usage_kit.save_until_killed(path, expert, acknowledge.detach(), turns)


def kill_and_count(path, rounds):
    """Each round: two processes save at once, one is killed. What may be more than what was
    acknowledged is a turn a kill: saved, and not yet said so."""
    rng, saved, kills = random.Random(7), [0, 0], [0, 0]
    for round_ in range(rounds):
        savers = [Saver(path, 0), Saver(path, 1)]
        victim = round_ % 2
        for saver in savers:
            saver.wait_for_turns(rng.randrange(1, 4))
        kills[victim] += 1
        savers[victim].kill()
        savers[1 - victim].wait_for_turns(2)  # goes on undisturbed
        kills[1 - victim] += 1
        savers[1 - victim].kill()
        for expert, saver in enumerate(savers):
            saver.end()
            saved[expert] += saver.saved
        found = usage_file(path).read()
        assert found.problems == ()
        for expert in (0, 1):
            counted = round(found.counts.heat[1][expert])
            assert saved[expert] <= counted <= saved[expert] + kills[expert]
    assert list(path.parent.glob("*.old")) == []


def test_nothing_is_lost_but_the_turn_that_was_being_saved(tmp_path):
    kill_and_count(tmp_path / "u", rounds=5)


@pytest.mark.soak
def test_nothing_is_lost_in_many_rounds(tmp_path):
    kill_and_count(tmp_path / "u", rounds=200)


def test_two_processes_lose_none_of_each_others_turns(tmp_path):
    savers = [Saver(tmp_path / "u", expert, turns=25) for expert in (0, 1)]
    for saver in savers:
        saver.end()
    assert [saver.saved for saver in savers] == [25, 25]
    assert usage_file(tmp_path / "u").read().counts.heat[2].round().tolist() == [25, 25, 0, 0]
