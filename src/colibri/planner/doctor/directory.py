"""Checks of the directory itself and of what config.json says."""

from __future__ import annotations

from collections.abc import Sequence

from colibri.container.spec import JOURNAL_NAME, MANIFEST_NAME
from colibri.container.writer import PART_SUFFIX
from colibri.models.registry import SUPPORTED
from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, failed, passed, warned
from colibri.words import count

CONFIG_FIX = f"use a model of a supported family: {', '.join(SUPPORTED)}"
_UNFINISHED = (PART_SUFFIX, ".incomplete", ".aria2")


def directory(case: Case) -> Sequence[Found]:
    """There is a directory, and what lies in it is a model, whole."""
    kind = "converted" if case.model.converted else "as downloaded"
    return [passed(f"a model's directory, {kind}", case.model.path)]


def leftovers(case: Case) -> Sequence[Found]:
    """Nothing unfinished: a conversion that stopped, a download that broke off."""
    found = [n for n in case.model.names if n.endswith(_UNFINISHED) or n == JOURNAL_NAME]
    if not found:
        return [passed("no unfinished files")]
    text = ", ".join(map(ascii, found[:5])) + (", ..." if found[5:] else "")
    fix = "if no conversion or download is running, they can be deleted"
    return [warned(f"left over from something interrupted: {text}", case.model.path, fix=fix)]


def configuration(case: Case) -> Sequence[Found]:
    """config.json can be read and its family is one that this colibri runs."""
    family = case.model.family
    parsed = case.model.parsed
    layers = parsed.num_hidden_layers
    what = f"{family.name}, {count(layers, 'layer')}: run by colibri.models.{family.name}"
    found = [passed(what, case.model.path / "config.json")]
    if case.model.converted and (made_for := case.model.manifest.family) != family.name:
        found.append(
            failed(
                f"converted as {made_for!a}, but config.json says {family.name}",
                case.model.path / MANIFEST_NAME,
                fix="restore the config.json that the conversion wrote, or convert again",
            )
        )
    return found
