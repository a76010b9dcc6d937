"""/v1/models."""

from typing import Literal

from colibri.server.structs.base import Output


class Capabilities(Output, frozen=True, kw_only=True):
    """Of the chat template. thinking: it can be switched. reasoning_efforts: its levels."""

    chat: bool
    thinking: bool
    reasoning_efforts: list[str]
    tools: bool


class Model(Output, frozen=True, kw_only=True):
    """context_length, description: of other local servers; capabilities: ours alone."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["colibri"]
    context_length: int
    description: str
    capabilities: Capabilities


class Models(Output, frozen=True, kw_only=True):
    object: Literal["list"]
    data: list[Model]
