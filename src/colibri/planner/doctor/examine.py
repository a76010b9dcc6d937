"""All checks, in order, each of which says what it found, whatever it meets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colibri.errors import ColibriError
from colibri.planner.doctor import (
    directory,
    disk,
    hashes,
    memory,
    processor,
    records,
    settings,
    sidecars,
    text,
    weights,
)
from colibri.planner.doctor.case import Case, Check, Unavailable
from colibri.planner.doctor.finding import Finding, Found, failed, skipped

# Name, the check, what to do where it ends with an error instead of an answer.
CHECKS: tuple[tuple[str, Check, str], ...] = (
    ("model.directory", directory.directory, "name the directory of a model"),
    ("model.leftovers", directory.leftovers, "see that the directory can be read"),
    ("model.config", directory.configuration, directory.CONFIG_FIX),
    ("model.headers", weights.headers, weights.AGAIN),
    ("model.shards", weights.shards, "complete the download, or convert the model again"),
    ("model.tensors", weights.tensors, "take config.json and weights from one model"),
    ("model.records", records.records, weights.AGAIN),
    ("model.hashes", hashes.hashes, weights.AGAIN),
    ("text.tokenizer", text.tokenizer, "take the tokenizer's files from the source again"),
    ("text.template", text.template, "take the chat template from the source again"),
    ("text.generation", text.generation, "correct generation_config.json or delete it"),
    ("memory.plan", memory.plan, memory.PLAN_FIX),
    ("memory.available", memory.available, ""),
    ("memory.control_group", memory.control_group, ""),
    ("memory.swap", memory.swap, ""),
    ("memory.huge_pages", memory.huge_pages, ""),
    ("memory.others", memory.others, ""),
    ("processor.path", processor.path, ""),
    ("processor.governor", processor.governor, ""),
    ("processor.affinity", processor.affinity, ""),
    ("processor.numa", processor.numa, ""),
    ("disk.kind", disk.kind, ""),
    ("disk.speed", disk.speed, "look at the system's log: the disk or file system fails"),
    ("disk.open_files", disk.open_files, ""),
    ("disk.writable", disk.writable, ""),
    ("sidecars.usage", sidecars.usage, "see that the file can be read, or name another (--usage)"),
    ("sidecars.mirrors", sidecars.mirrors, sidecars.MIRROR_FIX),
    ("settings.variables", settings.variables, ""),
    ("settings.file", settings.config_file, "correct the file, or move it away"),
    ("settings.profile", settings.profile, "run `coli tune` again"),
)


def examine(case: Case, checks: Sequence[tuple[str, Check, str]] = CHECKS) -> Iterator[Finding]:
    """Findings in the order of the checks, each as soon as it is known. Raises nothing but what
    the case's own progress function raises."""
    told: list[str] = []
    for name, check, fix in checks:
        for found in _run(case, check, fix):
            if found.status == "fail" and found.what.startswith(tuple(told)):
                found = skipped("the same as above")
            elif found.status == "fail":
                told.append(found.what)
            yield Finding(name, found.status, found.what, found.where, found.fix)


def _run(case: Case, check: Check, fix: str) -> Sequence[Found]:
    try:
        return check(case)
    except Unavailable as error:
        return [skipped(str(error))]
    except MemoryError:
        return [failed("there is not enough memory to look", fix="free memory and try again")]
    except (ColibriError, OSError) as error:
        return [failed(str(error), fix=fix)]
