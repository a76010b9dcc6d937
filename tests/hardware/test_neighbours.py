import mmap
import os
import subprocess
import sys

import pytest

from colibri.hardware.neighbours import Neighbour, neighbours

NATIVE = "7f00-7f01 r-xp 0 fe:00 1 /env/lib/python3.12/site-packages/colibri/_native.abi3.so\n"


def process(root, pid, maps=NATIVE, parent=1, pages=10, command=b"coli\0chat\0"):
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "maps").write_text(maps)
    (folder / "statm").write_text(f"900 {pages} 3 1 0 5 0\n")
    (folder / "cmdline").write_bytes(command)
    (folder / "stat").write_text(f"{pid} (a) b) R {parent} 1 1 0\n")


def test_processes_that_have_loaded_the_native_module(tmp_path):
    process(tmp_path, 20)
    process(tmp_path, 3, command=b"python\0-c\0\xff")
    process(tmp_path, 4, maps="7f00-7f01 r-xp 0 fe:00 1 /usr/lib/libc.so.6\n")
    (tmp_path / "proc/5").mkdir()  # of another user, or just ended
    (tmp_path / "proc/self").mkdir()
    assert neighbours(tmp_path) == (
        Neighbour(3, 10 * mmap.PAGESIZE, "python -c \ufffd"),
        Neighbour(20, 10 * mmap.PAGESIZE, "coli chat"),
    )


def test_neither_this_process_nor_its_children(tmp_path):
    process(tmp_path, os.getpid())
    process(tmp_path, 20, parent=os.getpid())
    process(tmp_path, 21, pages=0)  # a zombie
    assert neighbours(tmp_path) == ()


def test_a_command_is_one_harmless_line(tmp_path):
    process(tmp_path, 20, command=b"python\0-c\0\nimport colibri\n\x1b]0;owned\x07\r\0")
    assert neighbours(tmp_path)[0].command == "python -c import colibri ]0;owned"


def test_no_proc(tmp_path):
    assert neighbours(tmp_path) == ()


def test_a_real_neighbour():
    """A grandchild: the shell between makes it nobody's child here."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    code = "import colibri._native, time; print('up', flush=True); time.sleep(60)"
    shell = ["sh", "-c", '"$0" -c "$1" & cat; kill $!', sys.executable, code]
    with subprocess.Popen(shell, **pipes) as child:
        assert child.stdout.readline() == b"up\n"
        found = [n for n in neighbours() if "import colibri._native, time" in n.command]
        child.stdin.close()
    assert any(n.rss_bytes > 5_000_000 for n in found)


@pytest.mark.parametrize(
    ("command", "brief"),
    [
        ("/usr/local/bin/python3 -m colibri run", "python3 -m colibri run"),
        ("coli serve --model /a/" + "x" * 200 + " --port 1", "coli serve --model ..."),
        ("/a/" + "b/" * 80 + "coli run", "coli run"),
        ("/", "/"),
        ("", ""),
    ],
)
def test_a_command_is_never_cut_in_a_word(command, brief):
    assert Neighbour(1, 1, command).brief == brief
