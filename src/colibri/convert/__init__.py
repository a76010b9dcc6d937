"""Turning a downloaded checkpoint into a container whose experts can be streamed."""

from colibri.convert.loop import convert
from colibri.convert.progress import ConvertProgress

__all__ = ["ConvertProgress", "convert"]
