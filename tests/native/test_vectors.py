"""Every kernel on every CPU path, as a program without Python: each compiler and machine gives the
bits of vectors.txt. What a test does not find (a compiler, an emulator) skips it by name."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from colibri.kernels import cpu

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).with_name("vectors.txt").read_text().splitlines()
ARM = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64")
STATIC = "-DCMAKE_EXE_LINKER_FLAGS=-static"
# Full optimisation is what the tests of the module run.
QUICK = "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def need(tool: str) -> str:
    found = shutil.which(tool, path=PATH)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


@functools.cache
def built(compiler: str, *flags: str) -> Path:
    """kernel_vectors made by that compiler, without a warning; objects are kept from run to run."""
    environment = os.environ | {"CXX": need(compiler)}
    folder = ROOT / "build" / f"vectors-{compiler}"
    options = [
        "-DCOLIBRI_MODULE=OFF",
        "-DCOLIBRI_VECTORS=ON",
        "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON",
    ]
    ninja = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={need('ninja')}"]
    for command in (
        [need("cmake"), "-S", ROOT, "-B", folder, *ninja, *options, QUICK, *flags],
        [need("cmake"), "--build", folder],
    ):
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    return folder / "kernel_vectors"


def run(*command: str | Path) -> dict[str, list[str]]:
    """The lines "kernel hash" of each path."""
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths: dict[str, list[str]] = {}
    for line in output.splitlines():
        path, vector = line.split(" ", 1)
        paths.setdefault(path, []).append(vector)
    return paths


def assert_stored(paths: dict[str, list[str]], names: list[str]) -> None:
    assert list(paths) == names
    for name in names:
        assert paths[name] == STORED, f"{name}: `make vectors` stores new bits, if they were wanted"


@pytest.mark.parametrize("compiler", ["c++", "clang++"])
def test_paths_of_this_machine(compiler: str) -> None:
    assert_stored(run(built(compiler)), cpu.supported_paths())


@pytest.mark.parametrize(
    ("processor", "names"),
    [
        ("max", ["scalar", "neon_dotprod", "neon_i8mm"]),
        ("cortex-a76", ["scalar", "neon_dotprod"]),
        ("cortex-a72", ["scalar"]),
    ],
)
def test_paths_of_aarch64_under_emulation(processor: str, names: list[str]) -> None:
    emulator = need("qemu-aarch64")
    program = built("aarch64-linux-gnu-g++", *ARM, STATIC)
    assert_stored(run(emulator, "-cpu", processor, program), names)


def test_paths_share_no_code() -> None:
    """A function that two paths may share is linked once: the AVX-512 copy, perhaps, for all."""
    listing = need("nm")
    folder = built("c++").parent / "CMakeFiles"
    objects = sorted(folder.glob("path_*.dir/csrc/*.o"))
    assert len(objects) >= 2 * len(cpu.supported_paths())
    for file in objects:
        symbols = subprocess.run([listing, file], check=True, capture_output=True, text=True).stdout
        own = file.parents[1].stem.removeprefix("path_")
        weak = [line for line in symbols.splitlines() if line.split()[-2] in "WVu"]
        shared = [line for line in weak if own not in line]
        assert shared == [], file.name
