"""One row of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from colibri.config.settings.forms import choice
from colibri.errors import ConfigError
from colibri.words import either


@dataclass(frozen=True)
class Upstream:
    """A variable name that users of the C engine know, and what its values mean here."""

    env: str
    translate: Callable[[str], str]
    says: str = "the same values"


@dataclass(frozen=True)
class Setting:
    """One wish: where it may be given, what it may be, what it does."""

    field: str  # of EngineConfig; also the key in the configuration file
    form: str  # valid values, for people
    help: str
    parse: Callable[[object], Any]
    upstream: Upstream | None = None
    names_files: bool = False  # it has a path, or several

    @classmethod
    def choosing(
        cls, field: str, names: Any, help: str, upstream: Upstream | None = None
    ) -> Setting:
        """One of a Literal's names (choices.py)."""
        choices = get_args(names)
        return cls(field, either([str(name) for name in choices]), help, choice(*choices), upstream)

    @property
    def flag(self) -> str:
        return "--" + self.field.replace("_", "-")

    @property
    def env(self) -> str:
        return "COLI_" + self.field.upper()

    def read(self, value: object, where: str) -> Any:
        try:
            return self.parse(value)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
