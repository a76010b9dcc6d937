"""Formats of tool calls: one a file, chosen by what the model's template teaches the model."""

from collections.abc import Mapping

from colibri.text.tools.base import Grammar
from colibri.text.tools.glm import glm_call
from colibri.text.tools.hermes import hermes_call
from colibri.text.tools.qwen_xml import qwen_xml_call

# name -> (what a template with this format contains, its grammar)
FORMATS: Mapping[str, tuple[str, Grammar]] = {
    "glm": ("<arg_key>", glm_call),
    "qwen_xml": ("<function=", qwen_xml_call),
    "hermes": ("<tool_call>", hermes_call),
}


def tool_format(template: str) -> str | None:
    """The name of the format that a template's source shows; None for one that is not known."""
    return next((name for name, (sign, _) in FORMATS.items() if sign in template), None)
