"""What the doctor says of machines: every state that is not well, by table."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from doctor_kit import FACTS, GB, GOOD, HOST

from colibri.config import EngineConfig
from colibri.errors import ReadError
from colibri.hardware.iobench import DiskRate, Extent
from colibri.hardware.neighbours import Neighbour
from colibri.llm import embedded_model
from colibri.planner.doctor import disk, memory, processor, settings
from colibri.planner.doctor.case import Case, ModelFiles
from colibri.planner.profile import Machine, Profile, fingerprint, profile_path, save


def case(machine=GOOD, model=None, **config):
    return Case(model or ModelFiles(embedded_model()), EngineConfig(**config), machine)


def host(**changes):
    return replace(GOOD, host=replace(HOST, **changes))


def facts(**changes):
    return host(facts=replace(FACTS, **changes))


def beside(command):
    return replace(GOOD, neighbours=(Neighbour(7, 3 * GB, command),))


def storage(**changes):
    return replace(GOOD, storage=replace(GOOD.storage, **changes))


def disk_of(speed, direct=True):
    return lambda extents: DiskRate(speed, direct, 1 << 20)


def failing_disk(extents):
    raise ReadError("measuring the disk: Input/output error")


CHECKS = (
    memory.plan,
    memory.available,
    memory.control_group,
    memory.swap,
    memory.huge_pages,
    memory.others,
    processor.path,
    processor.governor,
    processor.affinity,
    processor.numa,
    disk.kind,
    disk.speed,
    disk.open_files,
    disk.writable,
    settings.variables,
    settings.config_file,
    settings.profile,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: f"{c.__module__}.{c.__name__}")
def test_a_good_machine_passes(check):
    assert [found.status for found in check(case())] == ["pass"]


@pytest.mark.parametrize(
    ("check", "machine", "status", "word"),
    [
        (memory.available, facts(usable_bytes=GB // 2), "warn", "500 of 16,000 MB"),
        (memory.control_group, facts(cgroup_memory_bytes=4 * GB), "warn", "allows 4,000"),
        (memory.control_group, facts(cgroup_memory_bytes=12 * GB), "pass", "allows 12,000"),
        (memory.swap, host(swap_bytes=8 * GB, swap_used_bytes=5 * GB), "warn", "5,000 of 8,000"),
        (memory.swap, host(swap_bytes=0), "pass", "no swap"),
        (memory.huge_pages, host(huge_pages="never"), "warn", "switched off"),
        (memory.huge_pages, host(huge_pages=None), "pass", "does not say"),
        (memory.others, beside("coli run x"), "warn", "holds 3,000 MB (pid 7); coli run x"),
        (memory.others, beside(f"coli run -m {embedded_model()}"), "warn", "this very model"),
        (processor.path, replace(GOOD, cpu_path="scalar"), "warn", "scalar"),
        (processor.governor, host(governors=frozenset({"powersave"})), "warn", "powersave"),
        (
            processor.governor,
            host(governors=frozenset({"powersave"}), scaling_driver="intel_pstate"),
            "pass",
            "powersave",
        ),
        (processor.governor, host(governors=frozenset()), "pass", "somebody else"),
        (processor.affinity, host(allowed_cpus=1), "warn", "only 1 of 8"),
        (processor.affinity, facts(cpu_quota=1.5), "warn", "1.5 CPUs"),
        (
            processor.numa,
            host(numa_nodes=2),
            "pass",
            "2 memory nodes; trunk and experts are spread",
        ),
        (disk.kind, storage(file_system="tmpfs"), "warn", "in memory"),
        (disk.kind, storage(file_system="nfs4"), "warn", "network"),
        (disk.kind, storage(file_system=None, device=None), "pass", "unknown"),
        (
            disk.kind,
            replace(storage(rotational=True), disk_rate=disk_of(90e6)),
            "warn",
            "turning disk",
        ),
        (disk.kind, storage(rotational=True), "pass", "nvme0n1"),  # only says so: it is fast
        (disk.speed, replace(GOOD, disk_rate=disk_of(1e8)), "warn", "0.10 GB/s"),
        (disk.speed, replace(GOOD, disk_rate=disk_of(2e9, False)), "warn", "O_DIRECT"),
        (disk.speed, replace(GOOD, disk_rate=failing_disk), "fail", "Input/output error"),
        (disk.open_files, host(open_files_limit=16), "fail", "at most 16"),
        (disk.open_files, host(open_files_limit=None), "pass", "any number"),
        (settings.variables, replace(GOOD, environ={"COLI_RAMM": "1"}), "warn", "mean COLI_RAM"),
        (settings.variables, replace(GOOD, environ={"COLI_RAM": "much"}), "fail", "COLI_RAM"),
        (
            settings.variables,
            replace(GOOD, environ={"RAM_GB": "x", "COLI_UPSTREAM": "1"}),
            "fail",
            "RAM_GB",
        ),
        (settings.variables, replace(GOOD, environ={"CTX": "x"}), "pass", "CTX counts only with"),
        (settings.variables, replace(GOOD, environ={}), "pass", "no variable"),
        (settings.variables, GOOD, "pass", "COLI_RAM=1GB"),
    ],
)
def test_states_of_a_machine(check, machine, status, word):
    found = check(case(machine))[0]
    assert found.status == status
    assert word in found.what
    assert bool(found.fix) == (status != "pass")


def test_all_other_processes_are_one_line():
    model = str(embedded_model())
    many = [Neighbour(pid, pid * 10**6, f"coli run {pid}") for pid in range(40, 49)]
    machine = replace(GOOD, neighbours=(*many, Neighbour(50, GB, f"coli chat -m {model}")))
    (found,) = memory.others(case(machine))
    assert found.what == (
        "other colibri processes hold 1,396 MB (pid 40, 41, 42, 43, 44 and 5 more); "
        f"the largest: {f'coli chat -m {model}'[:100]}; this very model: pid 50"
    )
    assert "use the one with this model" in found.fix


def test_fewer_slots_than_a_token_needs_is_a_warning():
    (found,) = memory.plan(case(cache_experts=1))
    assert found.status == "warn"
    assert "a token needs" in found.what


def test_a_disk_without_files_is_not_measured():
    nothing = SimpleNamespace(extents=[], path=embedded_model())
    assert disk.speed(case(model=nothing))[0].status == "skip"


def test_what_is_measured_lies_inside_the_files():
    extents = ModelFiles(embedded_model()).extents
    assert extents
    for extent in extents:
        assert isinstance(extent, Extent)
        assert extent.offset + extent.nbytes <= extent.file.stat().st_size


def test_a_directory_that_cannot_be_written(monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    (found,) = disk.writable(case())
    assert (found.status, bool(found.fix)) == ("warn", True)


def test_a_profile_is_named_and_a_damaged_one_is_not_used(tmp_path):
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    machine, model = replace(GOOD, environ=environ), embedded_model()
    path = profile_path(model, environ)
    save(path, Profile(
        machine=Machine.here(model), model=fingerprint(model), name="demo", gain=0.1,
        settings={"readers": 2}, base_tps=1.0, tps=1.1, noise=0.0, colibri="0", tuned_unix=0,
    ))  # fmt: skip
    (found,) = settings.profile(case(machine))
    assert (found.status, found.where) == ("pass", str(path))
    assert "readers 2" in found.what
    path.write_text(path.read_text().replace("readers", "threads"))
    (found,) = settings.profile(case(machine))
    assert found.status == "warn"
    assert "checksum" in found.what


def test_weights_on_one_node_of_several_are_a_warning():
    (found,) = processor.numa(case(host(numa_nodes=2), numa="off"))
    assert (found.status, bool(found.fix)) == ("warn", True)
    assert "--numa off" in found.what
