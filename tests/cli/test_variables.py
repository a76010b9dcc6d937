"""Variables of the C engine and of Kubernetes, as commands meet them."""

from pathlib import Path

import pytest

from cli.conftest import Coli, FakeLLM


@pytest.mark.parametrize("command", [("run", "-q"), ("chat", "-q")])
def test_everyday_names_change_nothing(
    command: tuple[str, ...], coli: Coli, llm: FakeLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"CTX": "prod", "CAP": "abc", "SEED": "5", "NGEN": "x", "PIN": "1"}.items():
        monkeypatch.setenv(name, value)
    result = coli(*command, stdin=["hi"]) if command[0] == "chat" else coli(*command, "hi")
    assert (result.code, result.err) == (0, "")


def test_what_is_taken_is_said(coli: Coli, llm: FakeLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLI_UPSTREAM": "1", "CTX": "64", "CAP": "abc", "SEED": "5"}.items():
        monkeypatch.setenv(name, value)
    result = coli("run", "-q", "--cache-experts", "4", "hi")
    assert result.code == 0
    assert "CTX for --context" in result.err
    assert "SEED for --seed" in result.err
    assert "CAP" not in result.err


def test_a_port_of_kubernetes_is_a_warning(coli: Coli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLI_PORT", "tcp://10.96.12.7:8000")
    result = coli("stop")
    assert "COLI_PORT: " not in result.err
    assert "on port 8000" in result.err


PATHS = ["MODEL", "MODEL_DIRS", "MIRROR", "TRACE", "USAGE", "PROFILE", "CONFIG"]


@pytest.mark.parametrize("name", PATHS)
def test_an_error_names_the_variable_that_gave_the_path(
    name: str, coli: Coli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(f"COLI_{name}", "~/old/path")
    result = coli("run", "-q", "hi")
    assert result.code in (2, 4)
    assert f"{tmp_path}/old/path" in result.err
    assert result.err.endswith(f"(COLI_{name} says so)\n")


def test_so_does_an_error_about_a_file_in_it(
    coli: Coli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{")
    monkeypatch.setenv("COLI_MODEL", str(tmp_path))
    result = coli("run", "-q", "hi")
    assert f"{tmp_path}/config.json" in result.err
    assert result.err.endswith("(COLI_MODEL says so)\n")


def test_an_error_names_the_line_that_gave_the_path(
    coli: Coli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".config" / "colibri" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('model = "~/old"\n')
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("COLI_CONFIG", raising=False)
    result = coli("info")
    assert result.err == f"coli: error: {tmp_path}/old: no such directory ({file}: model says so)\n"
    monkeypatch.setenv("COLI_MODEL", "model")
    for flag in ("/no/model", f"{tmp_path}/old/er"):
        said = coli("info", "--model", flag).err.splitlines()
        assert said == [f"coli: error: {flag}: no such directory"]


_NUMBERS = [("TEMP", "nan"), ("COLI_TEMP", "5"), ("NGEN", "9" * 30), ("SEED", "-1")]


@pytest.mark.parametrize(
    ("command", "name", "value"),
    [("run", *n) for n in _NUMBERS] + [("serve", *n) for n in _NUMBERS[:3]],
)
def test_a_number_out_of_range_names_its_variable(
    command: str, name: str, value: str, coli: Coli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLI_UPSTREAM", "1")
    monkeypatch.setenv(name, value)
    result = coli(command, *(["hi"] if command == "run" else []))
    assert result.code == 2
    assert f"coli: error: {name}: " in result.err
