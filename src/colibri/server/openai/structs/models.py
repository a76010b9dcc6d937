"""/v1/models."""

from typing import Literal

from colibri.server.structs.base import Output


class Capabilities(Output, frozen=True, kw_only=True):
    """text: of the tokenizer; the others of the chat template. thinking: it can be switched.
    reasoning_efforts: its levels."""

    text: bool
    chat: bool
    thinking: bool
    reasoning_efforts: list[str]
    tools: bool


class Model(Output, frozen=True, kw_only=True):
    """context_length, description: of other local servers; embedded, capabilities: ours alone.
    embedded: it is the small one that comes with colibri."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["colibri"]
    context_length: int
    description: str
    embedded: bool
    capabilities: Capabilities


class Models(Output, frozen=True, kw_only=True):
    object: Literal["list"]
    data: list[Model]
