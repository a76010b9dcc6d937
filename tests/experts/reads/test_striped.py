"""Experts from several drives: the right ones, whatever fails, and told once."""

import errno
import logging
import os
import shutil
from functools import partial

import numpy as np
import pytest
from faults import jitter, slow

from colibri.container.mirror import RECORDS_SUFFIX
from colibri.errors import ConfigError, ContainerError, ReadError
from colibri.experts.reads.sources import MOST_FAILURES, open_drives
from colibri.experts.streamed import StreamedExperts
from mirror_kit import layers_of, stage

PAGE = 4096


class OnDrive:
    """os.preadv with faults by directory, which are called before each read there."""

    def __init__(self, **faults):
        self.faults = faults
        self.count = 0

    def __call__(self, descriptor, buffers, offset):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self.count += 1
        for name, fault in self.faults.items():
            if f"/{name}/" in path:
                fault(self.count)
        return os.preadv(descriptor, buffers, offset)


def io_error(n):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture(autouse=True)
def _cut_everything(monkeypatch):
    monkeypatch.setattr("colibri.experts.reads.sources.LEAST_PART_BYTES", PAGE)


@pytest.fixture(params=["int4", "source"])
def model(request, model_of, tmp_path):
    return shutil.copytree(model_of("olmoe", request.param), tmp_path / "model")


@pytest.fixture
def layers(model):
    return layers_of(model)


@pytest.fixture
def mirrors(model, tmp_path):
    stage(model, tmp_path / "a", "shards")
    stage(model, tmp_path / "b")
    return [tmp_path / "a", tmp_path / "b"]


@pytest.fixture
def make(layers):
    made = []

    def build(mirrors, slots=2, weights=None, **options):
        drives = open_drives(layers, mirrors)
        weights = weights or [1.0] * len(drives)
        options = {"drives": drives, "disk_weights": weights, **options}
        made.append(StreamedExperts(layers, slots_per_layer=slots, **options))
        return made[-1]

    yield build
    for experts in made:
        experts.close()


def batches(layers, calls=6, rows=3, k=4):
    rng = np.random.default_rng(1)
    for call in range(calls):
        n = list(layers)[call % len(layers)]
        layer = layers[n]
        x = rng.standard_normal((rows, layer.layout.hidden), np.float32)
        ids = np.stack([rng.permutation(layer.num_experts)[:k] for _ in range(rows)])
        yield n, x, ids.astype(np.int32), rng.random((rows, k), np.float32)


def outputs(experts, layers, **options):
    return [experts.run(*batch) for batch in batches(layers, **options)]


@pytest.fixture
def expected(layers, make):
    plain = StreamedExperts(layers, slots_per_layer=2)
    found = outputs(plain, layers)
    plain.close()
    return found


def same(a, b):
    return all((x.view(np.uint32) == y.view(np.uint32)).all() for x, y in zip(a, b, strict=True))


READS = pytest.mark.parametrize("read", [None, os.preadv, OnDrive(a=jitter, model=slow)])


@READS
@pytest.mark.parametrize("slots", [1, 3, 8])
def test_all_drives_are_read_and_nothing_changes(make, layers, mirrors, expected, read, slots):
    experts = make(mirrors, slots, read=read, verify=True)
    assert same(outputs(experts, layers), expected)
    stats = experts.stats()
    assert sum(drive.nbytes for drive in stats.drives) == stats.bytes_read
    assert all(drive.nbytes > 0 and not drive.failures for drive in stats.drives)
    experts.reset()
    assert not any(drive.nbytes for drive in experts.stats().drives)


@pytest.mark.parametrize("idle", [0, 1])
def test_a_drive_without_weight_is_not_read(make, layers, mirrors, expected, idle):
    weights = [float(drive != idle) for drive in range(2)]
    experts = make(mirrors[:1], weights=weights)
    assert same(outputs(experts, layers), expected)
    nbytes = [drive.nbytes for drive in experts.stats().drives]
    assert nbytes[idle] == 0
    assert nbytes[1 - idle] == experts.stats().bytes_read


@pytest.mark.parametrize("read", [None, os.preadv])
def test_lookahead_reads_from_all_too(make, layers, mirrors, expected, read):
    experts = make(mirrors, 4, read=read)
    numbers = list(layers)
    found = []
    for call, batch in enumerate(batches(layers)):
        after = numbers[(call + 1) % len(numbers)]
        hint = partial(experts.hint, after, [0, 3, 5, 6, 7], 4)
        found.append(experts.run(*batch, meanwhile=hint))
        if call == 3:
            experts.expire()
    assert same(found, expected)
    stats = experts.stats()
    assert stats.prefetch_reads > 0
    # Parts of guesses that were given up count too.
    assert sum(drive.nbytes for drive in stats.drives) >= stats.bytes_read
    assert all(drive.nbytes for drive in stats.drives)


def one_warning(caplog, directory):
    told = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(told) == 1, told
    assert told[0].startswith(f"{directory}: ")
    return told[0]


def files(directory):
    return [p for p in directory.iterdir() if p.suffix in (".safetensors", RECORDS_SUFFIX)]


def deleted(directory):
    shutil.rmtree(directory)


def truncated(directory):
    for file in files(directory):
        os.truncate(file, PAGE)


def flipped(directory):
    for file in files(directory):
        data = np.fromfile(file, np.uint8)
        data[2 * PAGE + 40 :: 64] ^= 1  # in a record's tail that is among the zeros
        with open(file, "r+b") as target:  # the open file, not another under its name
            target.write(data.tobytes())


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("damage", [deleted, truncated, flipped])
@pytest.mark.parametrize("read", [None, os.preadv])
@pytest.mark.parametrize("before", [True, False])
def test_a_mirror_that_goes_wrong_in_mid_run(
    make, layers, mirrors, model, expected, caplog, which, damage, read, before
):
    """before: its files are not open yet, so that deleting them is seen."""
    if damage is flipped and not next(iter(layers.values())).record:
        pytest.skip("a checkpoint as downloaded has no checksums")
    mirror = mirrors[which]
    experts = make([mirror], 1, read=read, verify=True)
    if not before:
        assert same(outputs(experts, layers), expected)
        assert not caplog.records
    damage(mirror)
    assert same(outputs(experts, layers), expected)
    assert same(outputs(experts, layers), expected)
    own, other = experts.stats().drives
    if damage is deleted and not before:
        assert not other.failures  # the open files outlive their names
        return
    one_warning(caplog, mirror)
    assert other.failures == MOST_FAILURES
    assert own.failures == 0


def test_the_model_itself_fails_and_a_mirror_helps(make, layers, mirrors, expected, caplog):
    read = OnDrive(model=lambda n: None)
    experts = make(mirrors, 1, read=read)
    read.faults["model"] = io_error
    assert same(outputs(experts, layers, calls=3), expected[:3])
    assert "Input/output error" in one_warning(caplog, layers[min(layers)].reads(0)[0].file.parent)
    failures = experts.stats().drives[0].failures
    assert failures >= MOST_FAILURES
    assert same(outputs(experts, layers), expected)
    assert experts.stats().drives[0].failures == failures  # it is left alone by now


def test_wrong_bytes_in_the_model_are_found_out(make, model_of, tmp_path, caplog, layers):
    model = layers[min(layers)].reads(0)[0].file.parent
    if not layers[min(layers)].record:
        pytest.skip("a checkpoint as downloaded has no checksums")
    stage(model, tmp_path / "a", "shards")
    plain = StreamedExperts(layers, slots_per_layer=2)
    expected = outputs(plain, layers)
    plain.close()
    experts = make([tmp_path / "a"], 1, verify=True)
    flipped(model)
    assert same(outputs(experts, layers, calls=3), expected[:3])
    one_warning(caplog, model)
    assert experts.stats().drives[1].failures == 0


def test_every_copy_fails(make, layers, mirrors, expected):
    names = ("model", "a", "b")
    read = OnDrive()
    experts = make(mirrors, 2, read=read)
    read.faults = dict.fromkeys(names, io_error)
    with pytest.raises(ReadError, match="Input/output"):
        outputs(experts, layers)
    read.faults = {}
    assert same(outputs(experts, layers), expected)


def test_every_copy_is_wrong(make, layers, mirrors):
    if not layers[min(layers)].record:
        pytest.skip("a checkpoint as downloaded has no checksums")
    experts = make(mirrors, 2, verify=True)
    for directory in (layers[min(layers)].reads(0)[0].file.parent, *mirrors):
        flipped(directory)
    with pytest.raises(ContainerError, match="checksum does not match"):
        outputs(experts, layers)


def test_mirrors_are_only_read(make, layers, mirrors, expected):
    def states():
        return {p: (p.stat().st_mtime_ns, p.stat().st_size) for m in mirrors for p in m.iterdir()}

    before = states()
    for mirror in mirrors:
        for file in mirror.iterdir():
            file.chmod(0o444)
        mirror.chmod(0o555)
    experts = make(mirrors)
    assert same(outputs(experts, layers), expected)
    assert states() == before
    for mirror in mirrors:
        mirror.chmod(0o755)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0, 1.0]])
def test_weights_are_one_a_directory(make, mirrors, weights):
    with pytest.raises(
        ConfigError, match=r"weights? for 3 directories; give one for each of .*model"
    ):
        make(mirrors, weights=weights)
