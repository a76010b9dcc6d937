import pytest

from colibri.hardware.cgroup import MemoryLimit, cpu_quota, memory_limits


def write(root, files):
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_v2_every_level_binds(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user/job\n",
            "sys/fs/cgroup/user/job/memory.max": "max\n",
            "sys/fs/cgroup/user/job/memory.current": "500\n",
            "sys/fs/cgroup/user/job/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/user/memory.max": "4000\n",
            "sys/fs/cgroup/user/memory.current": "3000\n",
            "sys/fs/cgroup/user/memory.stat": "anon 900\ninactive_file 1000\nactive_file 500\n",
            "sys/fs/cgroup/user/cpu.max": "max 100000\n",
        },
    )
    assert memory_limits(root) == [MemoryLimit(4000, 1500)]
    assert memory_limits(root)[0].available_bytes == 2500
    assert cpu_quota(root) == 1.5


def test_v1(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "7:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "8000\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "9000\n",
            "sys/fs/cgroup/memory/box/memory.stat": "total_inactive_file 500\ninactive_file 7\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert memory_limits(root) == [MemoryLimit(8000, 8500)]
    assert memory_limits(root)[0].available_bytes == 0
    assert cpu_quota(root) == 3


def test_a_container_sees_its_own_group_as_the_root(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "9:memory:/docker/0123abcd\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "8000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "100\n",
        },
    )
    assert memory_limits(root) == [MemoryLimit(8000, 100)]


@pytest.mark.parametrize("text", ["", "0::/\n"])
def test_no_limits(tmp_path, text):
    root = write(tmp_path, {"proc/self/cgroup": text})
    assert memory_limits(root) == []
    assert cpu_quota(root) is None


def test_no_proc(tmp_path):
    assert memory_limits(tmp_path) == []
