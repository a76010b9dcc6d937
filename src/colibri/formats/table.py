"""All formats, in the order of the native module's codes."""

from collections.abc import Mapping

from colibri.formats.base import Format
from colibri.formats.floats import FLOATS
from colibri.formats.fp8 import FP8
from colibri.formats.packed import INT3, INT4, INT8

FORMATS: Mapping[str, Format] = {
    format.name: format for format in (*FLOATS, *FP8, INT3, INT4, INT8)
}
