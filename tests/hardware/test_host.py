"""The machine's facts read from a made-up /proc and /sys."""

from pathlib import Path

import pytest

from colibri.hardware.host import host
from colibri.hardware.storage import Storage, storage_of


def write(root, files):
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_what_the_system_says(tmp_path):
    root = write(
        tmp_path,
        {
            "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
            "sys/devices/system/node/has_memory": "0-1,3\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "acpi-cpufreq\n",
        },
    )
    found = host(root)
    assert (found.huge_pages, found.numa_nodes) == ("never", 3)
    assert found.governors == {"powersave"}
    assert found.scaling_driver == "acpi-cpufreq"
    assert found.allowed_cpus >= 1


def test_what_the_system_does_not_say(tmp_path):
    found = host(tmp_path)
    assert (found.huge_pages, found.numa_nodes, found.governors) == (None, 1, frozenset())


@pytest.mark.parametrize("text", ["", "x", "0-", "0-b"])
def test_nonsense_of_nodes_is_one_node(tmp_path, text):
    write(tmp_path, {"sys/devices/system/node/has_memory": text})
    assert host(tmp_path).numa_nodes == 1


def disks(root, *, turns="0"):
    """A partition sda1 mounted at /data, with tmpfs and nfs below it."""
    write(
        root,
        {
            "proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
            "2 1 8:1 / /data\\040disk rw shared:1 - xfs /dev/sda1 rw\n"
            "3 2 0:5 / /data\\040disk/memory rw - tmpfs tmpfs rw\n"
            "4 2 0:6 / /data\\040disk/net rw - nfs4 host:/x rw\n"
            "nonsense\n",
            "sys/block/sda/queue/rotational": turns,
            "sys/block/sda/device/model": "Disk 1\n",
            "sys/block/sda/sda1/partition": "1\n",
        },
    )
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/8:1").symlink_to(root / "sys/block/sda/sda1")
    return root


@pytest.mark.parametrize(("turns", "rotational"), [("0", False), ("1", True), ("", None)])
def test_the_disk_below_a_path(tmp_path, turns, rotational):
    root = disks(tmp_path, turns=turns)
    found = storage_of(Path("/data disk/model"), root)
    assert found == Storage("xfs", "sda", "Disk 1", rotational)


def test_memory_and_network_are_known(tmp_path):
    root = disks(tmp_path)
    assert storage_of(Path("/data disk/memory/x"), root).in_memory
    assert storage_of(Path("/data disk/net/x"), root).network
    assert storage_of(Path("/anywhere"), root).file_system == "ext4"


def test_a_system_that_tells_nothing(tmp_path):
    assert storage_of(tmp_path, tmp_path) == Storage(None, None, None, None)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sys/block/sda/device/vendor", "QEMU\n"),
        ("sys/block/sda/device/model", "Virtual disk\n"),
        ("sys/block/sda/device/model", "PersistentDisk\n"),
    ],
)
def test_a_disk_that_a_hypervisor_makes_up_does_not_turn(tmp_path, file, text):
    root = write(disks(tmp_path, turns="1"), {file: text})
    assert storage_of(Path("/data disk/model"), root).rotational is None


@pytest.mark.parametrize("name", ["vda", "xvdb"])
def test_nor_does_one_below_a_volume(tmp_path, name):
    files = {
        "sys/block/dm-0/queue/rotational": "1\n",
        f"sys/block/{name}/{name}1/partition": "1\n",
        "proc/self/mountinfo": "1 0 254:0 / / rw - ext4 /dev/mapper/root rw\n",
    }
    root = write(tmp_path, files)
    (root / "sys/block/dm-0/slaves").mkdir()
    (root / f"sys/block/dm-0/slaves/{name}1").symlink_to(root / f"sys/block/{name}/{name}1")
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/254:0").symlink_to(root / "sys/block/dm-0")
    assert storage_of(Path("/model"), root).rotational is None
