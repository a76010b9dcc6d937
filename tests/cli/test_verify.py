"""`coli verify` as a user types it."""

import json
import shutil
from pathlib import Path

import pytest

import golden
from colibri.lab.verify.verify import verify

SOURCE = str(golden.tiny("mixtral"))


@pytest.fixture
def converted(model_of):
    return str(model_of("mixtral", "int4"))


def test_a_good_conversion(coli, converted):
    done = coli("verify", converted, "--against", SOURCE, "--sample", "2", "--prompts", "1")
    assert done.code == 0, done.err
    assert "as good as its scheme allows" in done.out


def test_json_holds_the_answers(coli, converted):
    done = coli("verify", converted, "--against", SOURCE, "--json")
    found = json.loads(done.out)
    assert (found["format"], found["scheme"], found["failures"]) == (1, "int4-gs64", [])
    assert 0 < found["logits"]["kl_mean"] <= found["logits"]["kl_largest"]
    assert found["records"]["compared"] == found["records"]["of"]


def test_a_bad_conversion_has_a_code_of_its_own(coli, tmp_path):
    copy = shutil.copytree(SOURCE, tmp_path / "copy")
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-2] ^= 0x40
    (copy / "model.safetensors").write_bytes(data)
    done = coli("verify", str(copy), "--against", SOURCE, "--prompts", "0")
    assert done.code == 7
    assert "not good enough" in done.out


@pytest.mark.parametrize(
    ("against", "code", "word"),
    [
        ("/no/such/directory", 4, "no such directory"),
        (str(golden.tiny("olmoe")), 2, "no conversion"),
        (None, 2, "the very directory"),
    ],
)
def test_refusals(coli, converted, against, code, word):
    done = coli("verify", converted, "--against", against or converted)
    assert done.code == code, done.err
    assert word in done.err


def test_movement_does_not_end_with_the_layers(converted):
    told = []

    def progress(*step):
        told.append(step)

    verify(Path(converted), golden.tiny("mixtral"), prompts=1, progress=progress)
    phases = list(dict.fromkeys(what for what, _, _ in told))
    assert phases[-3:] == ["walking the layers", "computing the answers", "comparing the answers"]
    for phase in phases:
        steps = [(done, total) for what, done, total in told if what == phase]
        assert [done for done, _ in steps] == list(range(1, steps[-1][1] + 1))
