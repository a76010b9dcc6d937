"""Checks of what belongs to a model and lies beside it or elsewhere: usage, mirrors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colibri.container.layerexperts import main_layers
from colibri.container.mirror import model_identity, survey
from colibri.errors import ColibriError
from colibri.experts.usage.log import usage_file
from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, failed, passed, skipped, warned
from colibri.words import coli, count

MIRROR_FIX = "`coli mirror verify` says what is wrong; `coli mirror stage` makes it anew"


def usage(case: Case) -> Sequence[Found]:
    """What is remembered of which experts are used is whole and of this model."""
    file = usage_file(case.config, case.model.container, case.machine.environ)
    if file is None or not file.path.exists():
        return [passed("no use of experts is remembered yet" if file else "usage is switched off")]
    path, found = file.path, file.read()
    reset = coli("usage reset", case.config.model)
    fix = f"nothing needs to be done: it is set aside at the next save; `{reset}` does now"
    if found.problems:
        return [warned(problem, path, fix=fix) for problem in found.problems[:3]]
    return [
        passed(f"the use of experts over {count(found.counts.tokens, 'token')} is remembered", path)
    ]


def mirrors(case: Case) -> Sequence[Found]:
    """Each mirror holds copies of this model, whose sizes and headers are right."""
    if not case.config.mirror:
        return [skipped("no mirror is named (--mirror)")]
    layers = main_layers(case.model.container.expert_layers())
    identity, found = model_identity(layers), []
    for directory in map(Path, case.config.mirror):
        try:
            copies = survey(directory, layers, identity)
        except (ColibriError, OSError) as error:
            found.append(failed(str(error), directory, fix=MIRROR_FIX))
            continue
        found += [warned(f"left out: {why}", directory, fix=MIRROR_FIX) for why in copies.refused]
        files, records = len(copies.shards), len(copies.records)
        what = f"copies of {count(files, 'file')} and {count(records, 'hot record')}"
        found.append(passed(what, directory))
    return found
