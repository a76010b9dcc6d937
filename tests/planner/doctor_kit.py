"""A machine on which all is well."""

from colibri.hardware.host import Host
from colibri.hardware.iobench import DiskRate
from colibri.hardware.probe import Facts
from colibri.hardware.storage import Storage
from colibri.planner.doctor.case import Surroundings

GB = 10**9
FACTS = Facts("x86_64", "A CPU", 4, None, 16 * GB, 12 * GB, None, 12 * GB, 4096)
HOST = Host(FACTS, 8, 8, frozenset({"performance"}), "acpi-cpufreq", 1, "madvise", GB, 0, 4096)
GOOD = Surroundings(
    host=HOST,
    storage=Storage("ext4", "nvme0n1", "x", False),
    cpu_path="avx2",
    rss_bytes=50_000_000,
    neighbours=(),
    environ={"PATH": "/bin", "COLI_RAM": "1GB"},
    config_file=None,
    disk_rate=lambda extents: DiskRate(2e9, True, 1 << 20),
)
