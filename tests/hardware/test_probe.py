import mmap
import os
import subprocess
import sys

from colibri.hardware.probe import facts, free_bytes, peak_rss_bytes, resident_bytes, rss_bytes


def test_facts_of_this_machine():
    found = facts()
    assert 0 < found.usable_bytes <= found.memory_available_bytes <= found.memory_bytes
    assert 1 <= found.physical_cores <= os.cpu_count()
    assert found.page_bytes % 4096 == 0
    assert found.machine


def test_what_cannot_be_known_is_none(tmp_path):
    found = facts(tmp_path)
    assert found.cpu_model is None
    assert found.cgroup_memory_bytes is found.cpu_quota is None
    assert found.usable_bytes == found.memory_available_bytes


def test_a_quota_bounds_the_cores(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("60000 100000\n")
    assert facts(tmp_path).physical_cores == 1
    assert facts(tmp_path).cpu_quota == 0.6


def test_cores_share_their_threads(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor: 0\nmodel name\t: Some CPU @ 2 GHz\n")
    for cpu in os.sched_getaffinity(0):
        topology = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text("0-99\n")
    assert facts(tmp_path).physical_cores == 1
    assert facts(tmp_path).cpu_model == "Some CPU @ 2 GHz"


def test_a_memory_limit_bounds_what_is_usable(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("1000000\n")
    (tmp_path / "sys/fs/cgroup/memory.current").write_text("400000\n")
    assert facts(tmp_path).cgroup_memory_bytes == 1000000
    assert facts(tmp_path).usable_bytes == 600000


def test_memory_is_what_the_kernel_says_is_available(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal:       8000 kB\nMemFree:         100 kB\nMemAvailable:   3000 kB\n"
    )
    found = facts(tmp_path)
    assert (found.memory_bytes, found.memory_available_bytes) == (8000 * 1024, 3000 * 1024)
    assert found.usable_bytes == 3000 * 1024


def test_the_tighter_of_machine_and_group(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8000 kB\nMemAvailable: 3000 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("4000000\n")
    for current, usable in (("3900000", 100000), ("10", 3000 * 1024)):
        (group / "memory.current").write_text(current)
        assert facts(tmp_path).usable_bytes == usable


def test_resident_memory_of_a_process_that_is_not_there(tmp_path):
    assert resident_bytes(1, tmp_path) == 0
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/statm").write_text("900 25 3 1 0 5 0\n")
    assert resident_bytes(1, tmp_path) == 25 * mmap.PAGESIZE


def test_resident_memory_follows_what_is_touched():
    before = rss_bytes()
    data = mmap.mmap(-1, 40_000_000)  # fresh pages, whatever the heap still holds
    data.write(bytes(40_000_000))
    assert 35_000_000 < rss_bytes() - before < 60_000_000
    del data


def test_the_peak_is_of_this_program_not_of_the_one_that_started_it():
    data = mmap.mmap(-1, 200_000_000)
    data.write(bytes(200_000_000))
    code = "from colibri.hardware.probe import peak_rss_bytes as p; print(p())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert 10_000_000 < int(child.stdout) < 100_000_000
    assert peak_rss_bytes() > 200_000_000
    del data


def test_free_bytes_of_a_path_yet_to_be_made(tmp_path):
    assert free_bytes(tmp_path / "new" / "folder") > 0
