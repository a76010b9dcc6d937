"""The one table of settings: flags, variables, file keys and docs/configuration.md come from it.

Its rows stand in a file for each theme; a new setting is one row there and one field of
EngineConfig.
"""

from __future__ import annotations

from colibri.config.settings import cache, machine, model, routing, serving
from colibri.config.settings.setting import Setting, Upstream

__all__ = ["BY_FIELD", "OTHER_VARIABLES", "SETTINGS", "Setting", "Upstream"]

SETTINGS: tuple[Setting, ...] = (
    *model.ROWS,
    *cache.ROWS,
    *machine.ROWS,
    *routing.ROWS,
    *serving.ROWS,
)
BY_FIELD = {setting.field: setting for setting in SETTINGS}

# Variables that are not settings of the engine: (name, what it does).
OTHER_VARIABLES: tuple[tuple[str, str], ...] = (
    ("COLI_CHAT_HISTORY", "Where `coli chat` keeps the lines typed: a file, or off."),
    ("COLI_CONFIG", "Path of the configuration file."),
    ("COLI_DEBUG", "1: show the Python traceback of an error."),
    ("COLI_TEST_TOKENIZERS", "Directory of large real tokenizers for the test suite."),
    ("COLI_UPSTREAM", "1: the C engine's own variables count too, with their everyday names."),
)
