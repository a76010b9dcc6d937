"""Checks of what was asked for by variables and by the configuration file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colibri.config import SETTINGS, EngineConfig, unknown_variables
from colibri.config.upstream import SWITCH, idle, set_for
from colibri.errors import ColibriError, ConfigError
from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, failed, passed, warned
from colibri.planner.profile import load, profile_path
from colibri.words import coli


def variables(case: Case) -> Sequence[Found]:
    """Each variable is known and can be read."""
    environ = case.machine.environ
    unset = "unset it or correct its name"
    found = [warned(text, fix=unset) for text in unknown_variables(environ)]
    known = []
    for setting in SETTINGS:
        upstream = set_for(setting, environ)
        for name in (setting.env, *([upstream.env] if upstream else [])):
            if text := environ.get(name):
                known.append(f"{name}={text}")
                found += _readable(name, environ)
    if found:
        return found
    return [
        passed((f"set: {', '.join(known)}" if known else "no variable is set") + _idle(environ))
    ]


def _readable(name: str, environ: Mapping[str, str]) -> list[Found]:
    alone = {key: environ[key] for key in (name, SWITCH) if key in environ}
    try:
        EngineConfig.resolve(environ=alone, file=None)
    except ConfigError as error:
        return [failed(str(error), name, fix="unset it or give a value it may have")]
    return []


def _idle(environ: Mapping[str, str]) -> str:
    names = idle(environ)
    if not names:
        return ""
    verb = "counts" if len(names) == 1 else "count"
    return f"; {', '.join(names)} {verb} only with {SWITCH}=1"


def config_file(case: Case) -> Sequence[Found]:
    """The configuration file can be read, and knows only settings."""
    file = case.machine.config_file
    if file is None:
        return [passed("there is no configuration file")]
    EngineConfig.resolve(environ={}, file=file)
    return [passed("every key can be read", file)]


def profile(case: Case) -> Sequence[Found]:
    """What `coli tune` left for this model on this machine is whole, and is named."""
    _ = case.model.names  # where there is no model, that is the news
    path = profile_path(case.model.path, case.machine.environ, case.model.others)
    if path is None or not path.is_file():
        return [passed("`coli tune` has left no profile of this model on this machine")]
    try:
        settings = load(path, case.model.path, case.model.others).settings
    except ColibriError as error:
        tune = coli("tune", case.config.model)
        return [warned(str(error), path, fix=f"run `{tune}` again; until then it is not used")]
    chosen = ", ".join(f"{name} {value}" for name, value in settings.items())
    return [passed(f"a profile of `coli tune`: {chosen}", path)]
