"""Completion in the shells: the scripts, and what `coli` answers them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Coli
from colibri.cli import grouping
from colibri.cli.types import SettingValue
from colibri.config import SERVER_SETTINGS, SETTINGS

COLI = Path(sys.executable).with_name("coli")


def answered(
    coli: Coli, monkeypatch: pytest.MonkeyPatch, line: str, shell: str = "zsh"
) -> list[str]:
    """The values offered for the last word of a line."""
    words = line.split(" ")
    monkeypatch.setenv("_COLI_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words) - 1))
    shown = coli()
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    if shell == "zsh":
        return lines[1::3]
    return [line.split("\t")[0].split(",", 1)[1] for line in lines]


@pytest.mark.parametrize("shell", ["zsh", "fish", "bash"])
def test_commands_are_completed(coli: Coli, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    assert answered(coli, monkeypatch, "coli ", shell) == list(grouping.COMMANDS)
    assert answered(coli, monkeypatch, "coli co", shell) == ["convert", "completion"]
    assert answered(coli, monkeypatch, "coli usage re", shell) == ["reset"]


@pytest.mark.parametrize("shell", ["zsh", "fish", "bash"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("coli run --max-t", ["--max-tokens"]),
        ("coli run --thinking o", ["on", "off"]),
        ("coli run --direct ", ["auto", "on", "off"]),
        ("coli serve --policy l", ["lru", "lfru"]),
        ("coli run --router g", ["gumbel"]),
        ("coli run --reasoning-effort m", ["minimal", "medium", "max"]),
        ("coli completion z", ["zsh"]),
        ("coli plan --scheme int", ["int4-gs64", "int8-gs64"]),
        ("coli --ver", ["--version"]),
        ("coli run --ram ", ["auto"]),
        ("coli run --max-tokens abc --direct a", ["auto"]),
    ],
)
def test_flags_and_choices_are_completed(
    coli: Coli, monkeypatch: pytest.MonkeyPatch, shell: str, line: str, offered: list[str]
) -> None:
    assert answered(coli, monkeypatch, line, shell) == offered


def test_models_are_directories_or_names_of_the_hub(
    coli: Coli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hub" / "models--allenai--olmoe").mkdir(parents=True)
    for line in ("coli run -m all", "coli info all"):
        monkeypatch.delenv("_COLI_COMPLETE", raising=False)
        answered(coli, monkeypatch, line)
        assert coli().out.splitlines() == ["dir", "all", "_", "plain", "allenai/olmoe", "_"]


@pytest.mark.parametrize(
    "line", ["coli convert x", "coli verify x", "coli list x", "coli run --mirror x"]
)
def test_places_are_completed_by_the_shell(
    coli: Coli, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    answered(coli, monkeypatch, line)
    assert coli().out.splitlines()[:2] == ["dir", "x"]


def test_words_of_settings_are_values_that_they_take() -> None:
    offered = {s.field: SettingValue(s).words() for s in (*SETTINGS, *SERVER_SETTINGS)}
    for setting in (*SETTINGS, *SERVER_SETTINGS):
        for word in offered[setting.field]:
            setting.read(word, "here")
    assert offered["lookahead"] == ["off", "auto"]
    assert offered["embed_bits"] == ["8", "4", "32"]
    assert offered["router"] == ["own", "cache-aware", "gumbel", "soft", "int8-table"]
    none = (
        "host",
        "model",
        "model_dirs",
        "trace",
        "cors_origin",
        "model_id",
        "max_body",
        "context",
    )
    assert {field: offered[field] for field in none} == {field: [] for field in none}


@pytest.mark.parametrize(
    ("asked", "words", "position"),
    [
        ("1", "coli run", "1"),
        ("bash_complete", "", "1"),
        ("bash_complete", "coli run", "x"),
        ("csh_complete", "coli run", "1"),
        ("zsh_complete", "coli run", ""),
    ],
)
def test_a_variable_that_no_script_set_is_an_error(
    coli: Coli, monkeypatch: pytest.MonkeyPatch, asked: str, words: str, position: str
) -> None:
    monkeypatch.setenv("_COLI_COMPLETE", asked)
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", position)
    shown = coli("--version")
    assert shown.code == 2
    assert "_COLI_COMPLETE is for the scripts" in shown.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_asks_with_our_variable(coli: Coli, shell: str) -> None:
    shown = coli("completion", shell)
    assert shown.code == 0
    assert f"_COLI_COMPLETE={shell}_complete" in shown.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("coli do", ["doctor"]),
        ("coli run --max-t", ["--max-tokens"]),
        ("coli run --direct o", ["on", "off"]),
        ("coli chat --attach http://x --thinking of", ["off"]),
    ],
)
def test_bash_with_the_script(line: str, offered: list[str], tmp_path: Path) -> None:
    words = line.split()
    script = tmp_path / "script.bash"
    script.write_bytes(subprocess.run([COLI, "completion", "bash"], capture_output=True).stdout)
    ask = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}\n"
        '_coli_completion coli; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{COLI.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", ask],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    assert (done.stdout.split(), done.stderr) == (offered, "")


def test_completing_imports_no_arithmetic() -> None:
    code = (
        "import os, sys; from colibri.cli.app import run\n"
        "os.environ.update(_COLI_COMPLETE='zsh_complete', COMP_CWORD='3')\n"
        "os.environ['COMP_WORDS'] = 'coli run -m x'\n"
        "run([]); sys.exit(bool({'numpy', 'tokenizers', 'msgspec'} & sys.modules.keys()))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
