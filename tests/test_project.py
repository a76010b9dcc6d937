"""What the project says of itself: imports at start, dependency directions, stub, documents."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from colibri.config import SETTINGS, EngineConfig
from scripts import docs, stub

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize(
    ("code", "libraries", "modules"),
    [
        ("from colibri.cli.app import run; run(['--help'])", "click", 150),
        ("import colibri; colibri.LLM", "msgspec numpy psutil tokenizers xxhash", 560),
    ],
)
def test_starting_is_quick(code: str, libraries: str, modules: int) -> None:
    """What it imports, because seconds belong to the machine: 117 and 490 modules take 0.1 and
    0.4 s of a quiet core."""
    count = (
        "import atexit, sys; own = {m.partition('.')[0] for m in sys.modules}\n"
        "def end():\n"
        "    tops = {m.partition('.')[0] for m in sys.modules} - own - sys.stdlib_module_names\n"
        "    print(len(sys.modules), *sorted(t for t in tops if t[0] != '_'), file=sys.stderr)\n"
        f"atexit.register(end)\n{code}"
    )
    done = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True)
    number, *tops = done.stderr.split()
    assert set(tops) - {"colibri", "typing_extensions"} <= set(libraries.split())
    assert int(number) < modules


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        (
            "from colibri.cli.app import run; run(['--help'])",
            "numpy tokenizers rich jinja2",
        ),
        ("from colibri.cli.app import run; run(['run', '--help'])", "numpy tokenizers rich"),
        ("import colibri", "numpy tokenizers click"),
        ("import colibri; colibri.LLM", "torch transformers click rich prompt_toolkit"),
    ],
)
def test_nothing_is_imported_before_its_use(code: str, absent: str) -> None:
    check = f"{code}; import sys; sys.exit(bool({set(absent.split())} & sys.modules.keys()))"
    subprocess.run([sys.executable, "-c", check], check=True, stdout=subprocess.DEVNULL)


def test_each_kind_of_bug_has_tests_that_exist() -> None:
    page = (ROOT / "docs" / "bug-kinds.md").read_text("utf-8")
    rows = re.findall(r"^\| (B\d{3}) \| [^|]+ \| (.+) \|$", page, re.MULTILINE)
    assert len(rows) == page.count("\n| B")
    for kind, tests in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
        assert len(named) == tests.count("::") > 0, kind
        for file, name in named:
            assert f"def {name}(" in (ROOT / file).read_text("utf-8"), f"{kind}: {file}::{name}"


def test_benchmarks_still_run() -> None:
    command = [sys.executable, "-m", "pytest", "benchmarks", "--benchmark-disable"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_dependency_directions() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_architecture_page_shows_the_directions_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract, *_ = project["tool"]["importlinter"]["contracts"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert "```\n" + "\n".join(contract["layers"]) + "\n```\n" in page


def test_stub_says_what_the_native_module_says() -> None:
    written = stub.signatures(stub.STUB.read_text(encoding="utf-8"))
    assert stub.differences(written, stub.signatures(stub.reported())) == []


def test_stub_comparison_sees_drift() -> None:
    real = stub.signatures(
        "def f(x: Annotated[NDArray[numpy.float32], dict()], n: int) -> None: ..."
    )
    assert (
        stub.differences(
            stub.signatures("def f(x: NDArray[np.float32], n: int) -> None: ..."), real
        )
        == []
    )
    for drifted in (
        "def f(x: NDArray[np.float64], n: int) -> None: ...",
        "def f(x: NDArray[np.float32], k: int) -> None: ...",
        "def f(x: NDArray[np.float32], n: int) -> int: ...",
        "def g(x: NDArray[np.float32], n: int) -> None: ...",
    ):
        assert stub.differences(stub.signatures(drifted), real)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "generated" in p.read_text()], ids=lambda p: p.name
)
def test_generated_parts_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert docs.filled(text) == text, "run python -m scripts.docs"


def test_every_generated_part_is_in_a_page() -> None:
    found = {
        name for page in PAGES for name in re.findall(r"<!-- (\w+): generated", page.read_text())
    }
    assert found == set(docs.PARTS)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            elsewhere = target.startswith(("https://", "http://"))
            assert elsewhere or (page.parent / target).exists(), f"{page.name}: {target}"


def test_readme_names_only_flags_and_commands_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    help_text = docs.help_texts()
    for flag in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)):
        assert flag in help_text, flag
    for command in set(re.findall(r"coli ([a-z]+) ", text)):
        assert f"coli {command}" in help_text, command
    for target in set(re.findall(r"make ([a-z]+)`?$", text, re.MULTILINE)):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_settings_reach_the_constructor_of_llm() -> None:
    from colibri import LLM
    from colibri.errors import ConfigError

    for setting in SETTINGS:
        default = getattr(EngineConfig(), setting.field)
        if default is not None:
            with pytest.raises(ConfigError, match=setting.field):
                LLM("/nonexistent", **{setting.field: "nonsense\0"})  # no path either
