"""The conversion: output by output, each verified and journaled before the next."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from colibri.container.lock import locked
from colibri.container.manifest import Manifest, manifest_bytes
from colibri.container.shards import read_shards
from colibri.container.spec import MANIFEST_NAME
from colibri.container.weights import WeightMap
from colibri.container.writer import FileWriter, write_file
from colibri.convert.destination import (
    check_deletable,
    check_empty,
    check_places,
    check_space,
    delete_source_file,
    remove_manifest,
    remove_unfinished,
)
from colibri.convert.finish import build_manifest
from colibri.convert.journal import (
    JOURNAL_VERSION,
    Inventory,
    Journal,
    load_journal,
    record,
    remove_journal,
    save_inventory,
    save_journal,
    take_inventory,
)
from colibri.convert.pipeline import ahead
from colibri.convert.plan import ExpertShard, Plan, Shard, make_plan
from colibri.convert.policy import Policy, StoreTrunk
from colibri.convert.produce import expert_chunks, trunk_chunks
from colibri.convert.progress import Meter, Report
from colibri.convert.publish import Publisher
from colibri.convert.resume import (
    check_sources,
    deletable,
    finished_manifest,
    forget_others,
    is_finished,
    resumed_inventory,
)
from colibri.convert.selection import select
from colibri.convert.sidefiles import copy_side_file, side_files, warn_of_missing
from colibri.formats.names import Scheme


def never() -> bool:
    return False


def convert(
    source: Path,
    destination: Path,
    *,
    weights: WeightMap,
    family: str,
    scheme: Scheme = "int4-gs64",
    draft_scheme: Scheme = "int8-gs64",
    store_trunk: StoreTrunk = "source",
    delete_source: bool = False,
    force: bool = False,
    progress: Report | None = None,
    cancelled: Callable[[], bool] = never,
) -> Manifest:
    """Convert the checkpoint in `source` into a container in `destination`.

    Stopped at any instant and called again with the same arguments it continues, and the bytes are
    those of an uninterrupted run. A conversion that is already finished is left as it is. With
    `delete_source` each source shard is deleted once all that came from it is verified on disk.

    Raises ConfigError (places, parameters), ContainerError (a damaged or incomplete source, a
    weight that is not finite), UnsupportedModelError (unknown tensors or dtypes), CapacityError
    (a full disk, with the bytes that are missing), Cancelled.
    """
    policy = Policy(scheme, draft_scheme, store_trunk)
    check_places(source, destination)
    with locked(destination, "conversion"):
        journal = None if force else load_journal(destination)
        if journal is None and not force:
            done = finished_manifest(source, destination, policy, family)
            if done is not None:
                remove_journal(destination)  # what a kill in the last instant left of it
                Meter(0, 0, progress, cancelled).begin("already finished", str(destination))
                return done
        if delete_source:
            check_deletable(source)
        job = _start(source, destination, policy, family, weights, journal, force)
        return _run(job, delete_source, progress, cancelled)


@dataclass(frozen=True)
class _Job:
    source: Path
    destination: Path
    policy: Policy
    inventory: Inventory
    journal: Journal
    plan: Plan

    def done(self) -> set[str]:
        """Names of the finished shards."""
        shards = self.plan.shards
        return {s.name for s in shards if is_finished(s, self.destination, self.journal)}


def _start(
    source: Path,
    destination: Path,
    policy: Policy,
    family: str,
    weights: WeightMap,
    journal: Journal | None,
    force: bool,
) -> _Job:
    """Nothing in the destination is touched before the whole source has been checked."""
    resumed = journal is not None
    if journal is not None:
        inventory = resumed_inventory(source, destination, journal, policy, family)
    else:
        inventory = take_inventory(read_shards(source))
        journal = Journal(JOURNAL_VERSION, policy.params(family, inventory.digest()), {})
    plan = make_plan(select(inventory.tensors(source), weights), policy)
    if not resumed:
        side_files(source)
        check_empty(destination, force)
        save_inventory(destination, inventory)
        save_journal(destination, journal)
    return _Job(source, destination, policy, inventory, journal, plan)


def _run(
    job: _Job, delete_source: bool, progress: Report | None, cancelled: Callable[[], bool]
) -> Manifest:
    done = job.done()
    pending = [s for s in job.plan.shards if s.name not in done]
    check_sources(job.source, pending)
    if pending:
        remove_manifest(job.destination)
    remove_unfinished(job.destination, done)
    forget_others(job.journal, job.destination, done)
    if not delete_source:
        check_space(job.destination, sum(s.size for s in pending), "the rest of the conversion")
    meter = Meter(
        sum(s.source_bytes for s in job.plan.shards),
        sum(s.source_bytes for s in job.plan.shards if s.name in done),
        progress,
        cancelled,
    )
    _copy_side_files(job, meter)
    with Publisher(job.destination, job.journal, meter) as publisher:
        for shard in pending:
            if delete_source:  # the disk may have no room for both
                done.update(publisher.wait())
                _delete_sources(job, done)
            _write_shard(job, shard, meter, publisher)
        done.update(publisher.wait())
    if delete_source:
        _delete_sources(job, done)
    return _finish(job, meter)


def _copy_side_files(job: _Job, meter: Meter) -> None:
    names = side_files(job.source)
    warn_of_missing(job.source, names)
    for name in names:
        record(job.journal, name, copy_side_file(job.source, job.destination, name, meter), {})
    save_journal(job.destination, job.journal)


def _write_shard(job: _Job, shard: Shard, meter: Meter, publisher: Publisher) -> None:
    """The whole shard on its way to the disk; the publisher makes it durable and checks it."""
    check_space(job.destination, shard.size, shard.name)
    multipliers: dict[str, float] = {}
    if isinstance(shard, ExpertShard):
        meter.begin("experts", shard.name, shard.source_bytes, shard.size)
        chunks = ahead(expert_chunks(shard))
    else:
        meter.begin("trunk", shard.name, shard.source_bytes, shard.size)
        chunks = ahead(trunk_chunks(shard, multipliers))
    writer = FileWriter(job.destination / shard.name, shard.size)
    try:
        with contextlib.closing(chunks):
            writer.fill(chunks, meter.step)
    except BaseException:
        writer.close()
        raise
    publisher.submit(writer, shard.name, multipliers)


def _delete_sources(job: _Job, done: set[str]) -> None:
    for name in deletable(job.inventory, job.plan, done):
        if (job.source / name).exists():
            delete_source_file(job.source / name)


def _finish(job: _Job, meter: Meter) -> Manifest:
    manifest = build_manifest(job.plan, job.policy, job.journal, job.inventory)
    data = manifest_bytes(manifest)
    write_file(job.destination / MANIFEST_NAME, [data], len(data))
    remove_journal(job.destination)
    meter.begin("finished", str(job.destination))
    return manifest
