"""The files of contrib/: what they name exists, and the example of a configuration is one."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner
from server_kit import serving

from colibri import LLM
from colibri.cli.app import cli
from colibri.cli.errors import EXIT_CODES
from colibri.config import OTHER_VARIABLES, SERVER_SETTINGS, SETTINGS, EngineConfig, ServerConfig
from scripts.docs import example_file

ROOT = Path(__file__).parents[1]
CONTRIB = ROOT / "contrib"
VARIABLES = {s.env for s in (*SETTINGS, *SERVER_SETTINGS)} | {name for name, _ in OTHER_VARIABLES}


def instructions() -> list[tuple[str, str]]:
    """Of the container file: each with its arguments, lines that go on joined."""
    text = (CONTRIB / "Containerfile").read_text("utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines()
    return [(word, rest) for line in lines if line for word, _, rest in [line.partition(" ")]]


def given(word: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == word]


def test_the_image_is_built_of_files_that_exist_and_are_sent() -> None:
    sent = (CONTRIB / "Containerfile.dockerignore").read_text("utf-8").splitlines()
    sources = [s for rest in given("COPY") if "--from" not in rest for s in rest.split()[:-1]]
    assert set(sources) == {line[1:] for line in sent if line.startswith("!")}
    for source in sources:
        assert (ROOT / source).exists(), source


def test_the_image_runs_a_command_that_exists_as_a_user_without_a_shell() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (entry,) = given("ENTRYPOINT")
    (arguments,) = given("CMD")
    (program,) = tomllib.loads(f"x = {entry}")["x"]
    assert program in project["scripts"]
    command, *flags = tomllib.loads(f"x = {arguments}")["x"]
    assert CliRunner().invoke(cli, [command, *flags, "--help"]).exit_code == 0
    assert given("USER") == ["coli"]
    assert "useradd --create-home --uid 10001 coli" in given("RUN")[-1]
    assert given("EXPOSE") == [str(ServerConfig().port)]


def test_the_health_check_tells_a_living_server_from_a_dead_one() -> None:
    (check,) = given("HEALTHCHECK")
    command = tomllib.loads(f"x = {check.partition('CMD ')[2]}")["x"]
    assert command[0] == "python"
    with LLM(ram="2GB", context=256) as llm, serving(llm) as server:
        port = server.url.rpartition(":")[2]
        code = command[2].replace(":8000/", f":{port}/")
        assert code != command[2]
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert dead.returncode != 0


def unit() -> configparser.ConfigParser:
    """Of options that are repeated the last."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(CONTRIB / "coli-serve.service")
    return parser


def test_the_service_runs_a_command_that_exists() -> None:
    service = unit()["Service"]
    program, command, *flags = shlex.split(service["ExecStart"])
    assert program.endswith("/bin/coli")
    assert CliRunner().invoke(cli, [command, *flags, "--help"]).exit_code == 0
    text = (CONTRIB / "coli-serve.service").read_text("utf-8")
    assert set(re.findall(r"COLI_\w+", text)) <= VARIABLES
    hopeless = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert hopeless <= {code for _, code in EXIT_CODES}
    assert int(service["TimeoutStopSec"]) > ServerConfig().drain_timeout


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_takes_the_service(tmp_path: Path) -> None:
    text = (CONTRIB / "coli-serve.service").read_text("utf-8")
    file = tmp_path / "coli-serve.service"
    file.write_text(text.replace("/opt/colibri/bin/coli", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_example_configuration_is_one_and_says_the_defaults(tmp_path: Path) -> None:
    assert (CONTRIB / "colibri.toml").read_text("utf-8") == example_file()
    assert tomllib.loads(example_file()) == {}
    given = re.findall(r"^# (\w+ = \S.*?)  # ", example_file(), re.MULTILINE)
    file = tmp_path / "config.toml"
    file.write_text("\n".join(given))
    assert EngineConfig.resolve(environ={}, file=file) == EngineConfig()
    assert asdict(ServerConfig.resolve(environ={}, file=file)) == asdict(ServerConfig())
    named = set(re.findall(r"^# (\w+) =", example_file(), re.MULTILINE))
    assert named == {s.field for s in (*SETTINGS, *SERVER_SETTINGS)}
