import pytest

from colibri import _native
from colibri.kernels import cpu


@pytest.fixture(autouse=True)
def restore():
    threads, path = _native.num_threads(), _native.active_path()
    yield
    cpu.configure(threads, path)


def test_configure_sets_threads_and_path():
    cpu.configure(3, "scalar")
    features = cpu.cpu_features()
    assert (features["threads"], features["path"]) == (3, "scalar")


def test_defaults_are_the_physical_cores_and_the_best_path():
    cpu.configure()
    features = cpu.cpu_features()
    assert features["threads"] == features["physical_cores"] == cpu.physical_cores()
    assert features["path"] == _native.supported_paths()[-1]


def test_an_unknown_path_is_refused():
    with pytest.raises(ValueError, match="sse9"):
        cpu.configure(1, "sse9")


@pytest.mark.parametrize("threads", [0, -1, 2000])
def test_impossible_threads_are_refused(threads):
    with pytest.raises(ValueError, match="threads"):
        cpu.configure(threads)


@pytest.mark.parametrize(("allowed", "cores"), [([0, 1, 2, 3], 2), ([0, 2], 1), ([1], 1)])
def test_hyper_threads_count_once(tmp_path, monkeypatch, allowed, cores):
    for number in range(4):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{number % 2},{number % 2 + 2}\n")
    monkeypatch.setattr(cpu, "allowed_cpus", lambda: allowed)
    monkeypatch.setattr(cpu, "_quota_cores", lambda: 64)
    assert cpu.physical_cores(tmp_path) == cores


def test_without_topology_every_cpu_is_a_core(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu, "allowed_cpus", lambda: [0, 1, 2])
    monkeypatch.setattr(cpu, "_quota_cores", lambda: 64)
    assert cpu.physical_cores(tmp_path) == 3


@pytest.mark.parametrize(
    ("text", "cores"), [("max 100000\n", 1 << 30), ("250000 100000\n", 2), ("50000 100000\n", 1)]
)
def test_cgroup_quota(tmp_path, text, cores):
    (tmp_path / "cpu.max").write_text(text)
    assert cpu._quota_cores(tmp_path / "cpu.max") == cores
    assert cpu._quota_cores(tmp_path / "missing") == 1 << 30
