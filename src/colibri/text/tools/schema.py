"""What a tool's JSON schema says of an argument, and values written without quotes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from colibri.errors import ConfigError
from colibri.text.tools.branches import branches, kind_of

_LITERALS = {"True": "true", "False": "false", "None": "null"}  # as models trained on Python write


class ToolSchemas:
    """The tools of a request, in the form {"type": "function", "function": {"name", "parameters"}}.

    ConfigError for anything else.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        if not isinstance(tools, Sequence) or isinstance(tools, str):
            raise ConfigError("tools must be a list of tools", "tools")
        self.parameters = dict(_named(tool, at) for at, tool in enumerate(tools))

    def kinds(self, tool: str, argument: str) -> frozenset[str]:
        """JSON types the argument may have; empty where nothing is said."""
        parameters = self.parameters.get(tool, {})
        return kinds_of((parameters.get("properties") or {}).get(argument), parameters)


def value_json(text: str, kinds: frozenset[str]) -> str:
    """A value as JSON: read as JSON where its type allows, else a string; strings stand raw."""
    bare = text.strip()
    bare = _LITERALS.get(bare, bare) if kinds else bare
    kind = _kind(bare)
    if kind in (None, "string") or ("string" in kinds and kind not in kinds):
        return quoted(text)
    return bare


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def parsed(text: str) -> Any:
    """ValueError where it is no JSON; NaN and Infinity are none."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _kind(text: str) -> str | None:
    try:
        return kind_of(parsed(text))
    except ValueError:
        return None


def kinds_of(schema: object, root: object) -> frozenset[str]:
    """JSON types that a value may have by a schema within `root`; empty where nothing is said."""
    found = branches(schema, root, strict=False)
    return frozenset(kind for branch in found for kind in _branch_kinds(branch))


def _branch_kinds(branch: Mapping[str, Any]) -> Iterator[str]:
    kind = branch.get("type")
    if isinstance(kind, str):
        yield kind
        if kind == "number":
            yield "integer"


def _named(tool: object, at: int) -> tuple[str, Mapping[str, Any]]:
    """Its name and parameters."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        raise ConfigError(
            f'tools[{at}] must be {{"type": "function", "function": {{"name": ..., '
            '"parameters": ...}}',
            f"tools[{at}]",
        )
    parameters = function.get("parameters") or {}
    properties = parameters.get("properties") or {} if isinstance(parameters, Mapping) else None
    if not isinstance(properties, Mapping):
        raise ConfigError(
            f"tools[{at}] ({name}): parameters must be a JSON schema of an object", f"tools[{at}]"
        )
    return name, parameters
