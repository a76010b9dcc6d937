"""Formats of tool calls: one a file, chosen by what the model's template teaches the model."""

from collections.abc import Mapping
from dataclasses import dataclass

from colibri.text.tools.base import Grammar
from colibri.text.tools.enforce import WriteRules
from colibri.text.tools.glm import glm_call, glm_rules
from colibri.text.tools.hermes import hermes_call, hermes_rules
from colibri.text.tools.qwen_xml import qwen_xml_call, qwen_xml_rules


@dataclass(frozen=True)
class Format:
    """sign: what a template with this format contains. read: takes calls apart; rules: enforces
    them."""

    sign: str
    read: Grammar
    rules: WriteRules


FORMATS: Mapping[str, Format] = {
    "glm": Format("<arg_key>", glm_call, glm_rules),
    "qwen_xml": Format("<function=", qwen_xml_call, qwen_xml_rules),
    "hermes": Format("<tool_call>", hermes_call, hermes_rules),
}


def tool_format(template: str) -> str | None:
    """The name of the format that a template's source shows; None for one that is not known."""
    return next((name for name, form in FORMATS.items() if form.sign in template), None)
