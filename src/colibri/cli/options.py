"""Options that several commands share, made from their tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from colibri.cli import terminal
from colibri.cli.profiles import with_profile
from colibri.cli.prompt import valid_text
from colibri.cli.structure import structure_options, take_structure
from colibri.cli.types import ModelName, Number, SettingValue
from colibri.config import (
    SERVER_SETTINGS,
    SETTINGS,
    EngineConfig,
    ServerConfig,
    Setting,
    default_file,
    unknown_variables,
)
from colibri.config.sampling import NUMBERS
from colibri.config.upstream import notices, sampling_from, taken
from colibri.errors import ConfigError

if TYPE_CHECKING:
    from colibri.sampling import SamplingParams
    from colibri.text.chat import ChatOptions

Command = TypeVar("Command", bound=Callable[..., Any])

_NUMBER = Number()

# Field of SamplingParams, type of its flag, help. What is not given stays the model's default.
SAMPLING: tuple[tuple[str, click.ParamType[Any], str], ...] = tuple(
    (number.name, click.INT if number.whole else _NUMBER, number.help)
    for number in NUMBERS
    if number.help is not None
)
_LONGEST = (
    "Longest answer, in tokens; default: the model's, else a quarter of the context (of "
    "/v1/completions 16)."
)
_DEFAULTS = [
    (field, kind, _LONGEST if field == "max_tokens" else text)
    for field, kind, text in SAMPLING
    if field != "seed"
]


def verbose_option(command: Command) -> Command:
    text = "The whole plan before, and all that happened after."
    return click.option("-v", "--verbose", is_flag=True, help=text)(command)


def engine_options(command: Command) -> Command:
    """One flag for each setting of `colibri.config`; values are checked there, not by click."""
    for setting in reversed(SETTINGS):
        command = setting_option(setting.field)(command)
    return command


def setting_option(field: str) -> Callable[[Command], Command]:
    setting = next(s for s in SETTINGS if s.field == field)
    if field == "model":
        text = setting.help
        return click.option("-m", setting.flag, field, type=ModelName(), metavar="DIR", help=text)
    if field == "mirror":
        return _repeated(setting, "DIR", setting.help)
    return _single(setting)


def server_options(command: Command) -> Command:
    """One flag for each setting of a server."""
    for setting in reversed(SERVER_SETTINGS):
        if setting.field in ("cors_origin", "allowed_host"):
            command = _repeated(setting, "VALUE", f"{setting.help} [{setting.form}]")(command)
        else:
            command = _single(setting)(command)
    return command


def _single(setting: Setting) -> Callable[[Command], Command]:
    text = f"{setting.help} [{setting.form}]"
    kind = SettingValue(setting)
    return click.option(setting.flag, setting.field, type=kind, metavar="VALUE", help=text)


def _repeated(setting: Setting, metavar: str, text: str) -> Callable[[Command], Command]:
    return click.option(
        setting.flag,
        setting.field,
        type=SettingValue(setting),
        metavar=metavar,
        multiple=True,
        callback=_if_any,
        help=text,
    )


def _if_any(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...] | None:
    return values or None


def sampling_options(command: Command) -> Command:
    command = structure_options(command)
    command = click.option(
        "--logit-bias",
        "logit_bias",
        multiple=True,
        metavar="ID=BIAS",
        help="Added to the logit of a token; may be repeated.",
    )(command)
    command = click.option("--ignore-eos", is_flag=True, help="Go on past the end of the answer.")(
        command
    )
    command = click.option(
        "--stop", multiple=True, metavar="TEXT", help="End before this text; may be repeated."
    )(command)
    return _number_options(command, SAMPLING)


def default_options(command: Command) -> Command:
    """What a server lets its operator say of sampling, for requests that do not."""
    return _number_options(command, _DEFAULTS)


def _number_options(
    command: Command, rows: Sequence[tuple[str, click.ParamType[Any], str]]
) -> Command:
    for field, kind, text in reversed(rows):
        flag = "--" + field.replace("_", "-")
        command = click.option(flag, field, type=kind, metavar="N", help=text)(command)
    return command


def chat_options(command: Command) -> Command:
    """How the model shall think; `take_chat` has them checked."""
    command = click.option(
        "--reasoning-effort",
        metavar="LEVEL",
        shell_complete=_efforts,
        help="How hard to think: none, minimal, low, medium, high, xhigh or max; what the model "
        "lacks becomes the nearest.",
    )(command)
    return click.option(
        "--thinking",
        type=click.Choice(["on", "off"]),
        help="Whether to reason before the answer; default: as the model's template has it.",
    )(command)


def _efforts(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    from colibri.text.effort import EFFORTS

    return [effort for effort in EFFORTS if effort.startswith(incomplete)]


def take_chat(flags: dict[str, Any]) -> ChatOptions:
    """What was given of them, taken out of the mapping."""
    thinking, effort = flags.pop("thinking"), flags.pop("reasoning_effort")
    options: ChatOptions = {}
    if thinking is not None:
        options["thinking"] = thinking == "on"
    if effort is not None:
        from colibri.text.effort import check_effort

        check_effort(effort)
        options["reasoning_effort"] = effort
    return options


def take_config(flags: dict[str, Any]) -> EngineConfig:
    """The configuration from these flags (taken out of the mapping), environment and file."""
    given = {setting.field: flags.pop(setting.field) for setting in SETTINGS}
    _say_taken(given)
    return with_profile(_resolve(given), given)


def take_server(flags: dict[str, Any]) -> ServerConfig:
    """The server's settings from these flags (taken out of the mapping), environment and file."""
    given = {setting.field: flags.pop(setting.field) for setting in SERVER_SETTINGS}
    return ServerConfig.resolve(environ=os.environ, file=default_file(os.environ), **given)


def take(**flags: Any) -> EngineConfig:
    """The configuration from some flags, environment and file, without a word on stray variables:
    for a command that takes it in parts."""
    return EngineConfig.resolve(environ=os.environ, file=default_file(os.environ), **flags)


def take_model(flag: str | None) -> str | None:
    """The model by flag, environment or file; None: the embedded one."""
    return take_some(model=flag).model


def take_some(**flags: str | None) -> EngineConfig:
    """The same for a command that takes only these settings."""
    _say_taken(flags)
    return _resolve(flags)


def _say_taken(flags: Mapping[str, Any]) -> None:
    if names := taken(os.environ, flags):
        pairs = ", ".join(f"{name} for {flag}" for name, flag in names)
        terminal.say(f"coli: warning: variables of the C engine are taken: {pairs}")


def _resolve(flags: Mapping[str, Any]) -> EngineConfig:
    for warning in (*unknown_variables(os.environ), *notices(os.environ)):
        terminal.say(f"coli: warning: {warning}")
    return EngineConfig.resolve(environ=os.environ, file=default_file(os.environ), **flags)


def take_sampling(flags: dict[str, Any]) -> dict[str, Any]:
    """What was given of SamplingParams' fields, taken out of the mapping."""
    own = {field: flags.pop(field) for field, _, _ in SAMPLING}
    given = _numbers(own)
    if biases := flags.pop("logit_bias"):
        given["logit_bias"] = dict(_bias(text) for text in biases)
    if stops := flags.pop("stop"):
        given["stop"] = tuple(valid_text(stop, "--stop") for stop in stops)
    if flags.pop("ignore_eos"):
        given["ignore_eos"] = True
    if (structure := take_structure(flags)) is not None:
        given["structure"] = structure
    _check(given)
    return given


def take_defaults(flags: dict[str, Any]) -> dict[str, Any]:
    """The same of default_options."""
    own = {field: flags.pop(field) for field, _, _ in _DEFAULTS}
    given = _numbers(own)
    _check(given)
    return given


def _numbers(own: Mapping[str, Any]) -> dict[str, Any]:
    """What these flags say, and the C engine's variables where they say nothing."""
    _say_taken(own)
    given = {field: value for field, value in own.items() if value is not None}
    for field, (name, value) in sampling_from(os.environ, own.keys() - given.keys()).items():
        _check({field: value}, f"{name}: ")
        given[field] = value
    return given


def _check(given: Mapping[str, Any], origin: str = "") -> None:
    """Before a model is loaded, which may take minutes."""
    if given:
        from colibri.sampling import SamplingParams

        try:
            SamplingParams(**given)
        except ConfigError as error:
            raise ConfigError(f"{origin}{error}", error.field) from None


def with_given(defaults: SamplingParams, given: Mapping[str, Any]) -> SamplingParams:
    import dataclasses

    return dataclasses.replace(defaults, **given)


def _bias(text: str) -> tuple[int, float]:
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError:
        raise ConfigError(f"--logit-bias: {text!r} is not ID=BIAS, e.g. 50=-2.5") from None
