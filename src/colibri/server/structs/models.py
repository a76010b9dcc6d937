"""/v1/models."""

from typing import Literal

from colibri.server.structs.base import Output


class Model(Output, frozen=True, kw_only=True):
    """context_length, description: of other local servers; OpenAI's has neither."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["colibri"]
    context_length: int
    description: str


class Models(Output, frozen=True, kw_only=True):
    object: Literal["list"]
    data: list[Model]
