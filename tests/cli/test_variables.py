"""Variables of the C engine and of Kubernetes, as commands meet them."""

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
