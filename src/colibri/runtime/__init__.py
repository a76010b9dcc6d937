"""From wishes to a running engine. Only here are implementations chosen."""

from colibri.runtime.runtime import Runtime, open_model
from colibri.runtime.stats import Stats

__all__ = ["Runtime", "Stats", "open_model"]
