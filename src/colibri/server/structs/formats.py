"""`response_format`: what the answer must be."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from colibri.server.structs.base import Input


class TextFormat(Input, frozen=True, kw_only=True, tag_field="type", tag="text"):
    pass


class JsonObjectFormat(Input, frozen=True, kw_only=True, tag_field="type", tag="json_object"):
    pass


class JsonSchema(Input, frozen=True, kw_only=True):
    schema: dict[str, Any] | bool
    name: str | None = None
    description: str | None = None
    strict: bool | None = None  # always: there is no other way here


class JsonSchemaFormat(Input, frozen=True, kw_only=True, tag_field="type", tag="json_schema"):
    json_schema: JsonSchema


class GrammarFormat(Input, frozen=True, kw_only=True, tag_field="type", tag="grammar"):
    """Not of OpenAI: a grammar in Lark's or llama.cpp's notation."""

    grammar: Annotated[str, Meta(min_length=1)]
    syntax: Literal["lark", "gbnf"] | None = None  # lark


class RegexFormat(Input, frozen=True, kw_only=True, tag_field="type", tag="regex"):
    """Not of OpenAI: the whole answer matches."""

    pattern: Annotated[str, Meta(min_length=1)]


class ChoiceFormat(Input, frozen=True, kw_only=True, tag_field="type", tag="choice"):
    """Not of OpenAI: one of these texts."""

    options: Annotated[
        list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=1000)
    ]


ResponseFormat = (
    TextFormat | JsonObjectFormat | JsonSchemaFormat | GrammarFormat | RegexFormat | ChoiceFormat
)
