"""What the user asked for: flag, then environment, then configuration file, then default.

`EngineConfig` holds wishes and may say "auto"; the resolved numbers are the planner's `Plan`.
`SETTINGS` is the one table that flags, variables, file keys and docs/configuration.md come from.
"""

from colibri.config.engine import (
    EngineConfig,
    EngineSettings,
    asked_for,
    cpu_of,
    default_file,
    state_folder,
    unknown_variables,
    usage_of,
    user_folder,
)
from colibri.config.server import SERVER_BY_FIELD, SERVER_SETTINGS, ServerConfig, key_for
from colibri.config.settings import BY_FIELD, OTHER_VARIABLES, SETTINGS, Setting, Upstream
from colibri.config.sizes import SIZE_FORMS, parse_bytes

__all__ = [
    "BY_FIELD",
    "OTHER_VARIABLES",
    "SERVER_BY_FIELD",
    "SERVER_SETTINGS",
    "SETTINGS",
    "SIZE_FORMS",
    "EngineConfig",
    "EngineSettings",
    "ServerConfig",
    "Setting",
    "Upstream",
    "asked_for",
    "cpu_of",
    "default_file",
    "key_for",
    "parse_bytes",
    "state_folder",
    "unknown_variables",
    "usage_of",
    "user_folder",
]
