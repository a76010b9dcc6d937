"""Tuning a model on this machine: from a configuration to a profile that is worth keeping."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import colibri
from colibri.config import EngineConfig
from colibri.container.files import as_unicode
from colibri.errors import ColibriError
from colibri.hardware import probe
from colibri.lab.tune.search import Found, Say, Search, Wishes
from colibri.lab.tune.space import knobs, worth_trying
from colibri.lab.tune.trial import OutOfTime, Runner, TrialFailed
from colibri.planner.budget import AVAILABLE_SHARE, this_machine
from colibri.planner.profile import Machine, Profile, fingerprint


def tune(
    config: EngineConfig,
    given: Collection[str],
    runner: Runner,
    wishes: Wishes,
    say: Say = lambda text: None,
) -> Found:
    """given: settings that the user has decided, which are not tried. Nothing that a trial does
    is remembered as use of the model.

    Every trial has the budget that the first one had, so none takes more than the plan. Raises
    ColibriError if the model cannot be run as it is.
    """
    base = replace(config, profile="off", usage="off", ram=_fixed(config))
    search = Search(base, runner, wishes, say)
    try:
        start = search.start()
    except OutOfTime:
        return Found.nothing()
    except TrialFailed as error:
        raise ColibriError(f"as it is, the model cannot be measured: {error}") from None
    facts = probe.facts()
    everything = knobs(facts.physical_cores, os.cpu_count() or 1)
    return search.run(worth_trying(everything, start, given))


def _fixed(config: EngineConfig) -> str:
    """`auto` as a size: what is free now, of which other trials must not take more."""
    if config.ram != "auto":
        return config.ram
    return f"{max(1, int(this_machine().available_bytes * AVAILABLE_SHARE))}B"


def profile_of(found: Found, model: Path, others: Sequence[Path] = ()) -> Profile:
    """What is worth keeping of a search whose outcome is "confirmed". others: of --model-dirs."""
    return Profile(
        machine=Machine.here(model, others),
        model=fingerprint(model, others),
        name=as_unicode(model.absolute().name),
        settings=found.settings,
        gain=found.gain,
        base_tps=found.base_speed,
        tps=found.speed,
        noise=found.noise,
        colibri=colibri.__version__,
        tuned_unix=int(time.time()),
    )
