"""`coli bench` as a user types it, on the embedded model."""

import json

import pytest

from colibri.lab.gauge import ProcessGauge
from colibri.routing.trace import TraceFile

SMALL = ("--prompt-tokens", "8", "--new-tokens", "3", "--repeat", "1", "--warmup", "0")


@pytest.fixture(autouse=True)
def _small_stream(monkeypatch):
    """Half a gigabyte is much for a test; the real one is made in a process of its own."""
    monkeypatch.setattr(ProcessGauge, "memory", lambda self, threads: 10e9)


def test_a_run_with_all_outputs(coli, tmp_path):
    a, page = tmp_path / "a.json", tmp_path / "a.html"
    done = coli("bench", *SMALL, "--json", str(a), "--report", str(page))
    assert done.code == 0, done.err
    assert "of the memory floor" in done.out
    assert json.loads(a.read_text())["workload"]["prompt_tokens"] == 8
    assert page.read_text().startswith("<!doctype html>")
    compared = coli("bench", "--compare", str(a), str(a))
    assert compared.code == 0
    assert "decode.tps" in compared.out


def test_a_recorded_routing_is_one_that_can_be_followed(coli, tmp_path):
    first, second = tmp_path / "1.trace", tmp_path / "2.trace"
    assert coli("bench", *SMALL, "--record", str(first)).code == 0
    again = coli("bench", *SMALL, "--routing", f"trace:{first}", "--record", str(second))
    assert again.code == 0, again.err
    # A row a token that went through the layers: the prompt, and all but the last of the answer.
    layers = len(TraceFile(first).header.layers)
    assert sum(len(call.ids) for call in TraceFile(first).calls()) == layers * (8 + 3 - 1)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("--shape", "gpt"), 2, "choose from"),
        (("--shape", "glm-5.3-flash"), 2, "write glm-5.3-flash:LAYERS"),
        (("--shape", "olmoe-1b-7b", "-m", "x"), 2, "give one of them"),
        (("--routing", "most"), 2, "--routing"),
        (("--new-tokens", "1"), 2, "--new-tokens 1: at least 2"),
        (("--repeat", "0"), 2, "--repeat"),
        (("--cache-fraction", "0"), 2, "--cache-fraction"),
        (("--cache-fraction", "0.5", "--cache-experts", "3"), 2, "give one of them"),
        (("--json", "/no/such/folder/a.json"), 2, "--json"),
        (("--compare", "no.json", "no.json"), 4, "no such file"),
        (("--prompt-tokens", "99999999"), 2, "context"),
    ],
)
def test_refusals(coli, arguments, code, word):
    done = coli("bench", *SMALL, *arguments)
    assert done.code == code, done.err
    assert word in done.err
    assert done.out == ""
    assert "internal" not in done.err
