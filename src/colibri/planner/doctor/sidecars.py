"""Checks of what belongs to a model and lies beside it or elsewhere: mirrors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colibri.container.mirror import main_layers, model_identity, survey
from colibri.errors import ColibriError
from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, failed, passed, skipped, warned

MIRROR_FIX = "`coli mirror verify` says what is wrong; `coli mirror stage` makes it anew"


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
        what = f"copies of {len(copies.shards)} files and {len(copies.records)} hot records"
        found.append(passed(what, directory))
    return found
