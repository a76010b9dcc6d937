"""Kinds of values that click does not have."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.config import Setting
from colibri.errors import ContainerError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Words of a setting's form that say what to write rather than being it.
_NOUNS = {
    "address",
    "directories",
    "directory",
    "file",
    "name",
    "names",
    "numbers",
    "origins",
    "text",
}
_DIRECTORIES = {"mirror", "model_dirs"}


class Directory(click.ParamType[Path]):
    """A directory as an argument. An empty name, of a variable that is not set, is not "here"."""

    name = "directory"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value):
            self.fail("the name is empty", param, ctx)
        return Path(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        return _paths("dir", incomplete)


class ModelName(click.ParamType[str]):
    """A model as --model takes it; what it means is found out later."""

    name = "model"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        from colibri.container.hubcache import hub_models

        try:
            names = [model.id for model in hub_models(os.environ)]
        except ContainerError:
            names = []
        return _paths("dir", incomplete) + _words(names, incomplete)


@dataclass
class SettingValue(click.ParamType[str]):
    """The value of a setting, which colibri.config reads."""

    setting: Setting

    name = "value"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        paths: list[CompletionItem[str]] = []
        if self.setting.names_files:
            kind = "dir" if self.setting.field in _DIRECTORIES else "file"
            paths = _paths(kind, incomplete)
        return paths + _words(self.words(), incomplete)

    def words(self) -> list[str]:
        """Those values that are words, as the form lists them."""
        form = re.sub(r"\[[^]]*\]", "", self.setting.form)
        return [
            word
            for word in re.split(r", | or ", form)
            if re.fullmatch(r"[\w-]+", word) and word not in _NOUNS
        ]


def _paths(kind: str, incomplete: str) -> list[CompletionItem[str]]:
    """That the shell shall complete names of files or directories. bash takes this item as a wish
    for an empty list, so it stands first."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=kind)]


def _words(words: list[str], incomplete: str) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


@dataclass
class Number(click.ParamType[float]):
    """A finite number within bounds. click's own floats take nan, which is within any bounds."""

    low: float = -math.inf
    high: float = math.inf

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or not self.low <= number <= self.high:
            self.fail(f"{str(value)[:40]!r} is not {self._form()}", param, ctx)
        return number

    def _form(self) -> str:
        bounded = math.isfinite(self.low) and math.isfinite(self.high)
        return f"a number from {self.low:g} to {self.high:g}" if bounded else "a finite number"
