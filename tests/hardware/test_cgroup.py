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


def v2_group(**files):
    names = {name.replace("_", ".", 1): text for name, text in files.items()}
    group = {f"sys/fs/cgroup/job/{name}": f"{text}\n" for name, text in names.items()}
    return {"proc/self/cgroup": "0::/job\n"} | group


@pytest.mark.parametrize(
    ("files", "limit", "used"),
    [
        ({"memory_max": "8000", "memory_high": "max"}, 8000, 3000),
        ({"memory_max": "max", "memory_high": "5000"}, 5000, 3000),
        ({"memory_max": "8000", "memory_high": "5000"}, 5000, 3000),
        ({"memory_max": "8000", "memory_stat": "slab_reclaimable 200\nactive_file 50"}, 8000, 2750),
        ({"memory_max": "8000", "memory_stat": "inactive_file 9000"}, 8000, 0),
        ({"memory_max": "8000", "memory_stat": "active_file x\n\nactive_file\na b c"}, 8000, 3000),
        ({"memory_max": "0"}, 0, 3000),
    ],
)
def test_v2_whatever_binds(tmp_path, files, limit, used):
    root = write(tmp_path, v2_group(memory_current="3000", **files))
    assert memory_limits(root) == [MemoryLimit(limit, used)]


@pytest.mark.parametrize(
    "files",
    [
        {"memory_max": "max", "memory_high": "max", "memory_current": "5"},
        {"memory_max": "8000"},
        {"memory_max": "", "memory_current": ""},
        {"memory_max": "-1", "memory_current": "nonsense"},
    ],
)
def test_v2_no_limit(tmp_path, files):
    assert memory_limits(write(tmp_path, v2_group(**files))) == []


def test_v1_a_parents_limit_that_the_mount_does_not_show(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/kube/pod\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "700\n",
            "sys/fs/cgroup/memory/memory.stat": "hierarchical_memory_limit 2000\n"
            "total_active_file 100\n",
        },
    )
    assert memory_limits(root) == [MemoryLimit(2000, 600)]


def test_hybrid_hierarchies(tmp_path):
    """The memory controller in v1, the empty v2 hierarchy beside it."""
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/box\n0::/box\n\nnonsense\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "8000\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "100\n",
            "sys/fs/cgroup/box/cgroup.procs": "1\n",
        },
    )
    assert memory_limits(root) == [MemoryLimit(8000, 100)]


def test_a_group_outside_of_the_mounted_namespace(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../other\n",
            "sys/fs/cgroup/memory.max": "8000\n",
            "sys/fs/cgroup/memory.current": "100\n",
        },
    )
    assert memory_limits(root) == [MemoryLimit(8000, 100)]
