"""What schemas say of one and the same value by referring to and joining each other."""

from collections.abc import Iterable, Mapping
from typing import Any

from colibri.grammar.keywords import refuse, resolve, subschemas, types_of

_MOST_PATTERNS = 4  # met by one string: intersecting regexes takes time exponential in them
_LONGEST = 64

Node = Mapping[str, Any]


def check_chains(root: object, nodes: Mapping[str, object]) -> None:
    """Refuses a $ref that leads back to itself with nothing in between, and too many regexes on
    one string. `nodes`: all schemas of the document by pointer."""
    chains = _Chains(root)
    for at, node in nodes.items():
        if chains.patterns(node, at) > _MOST_PATTERNS:
            refuse("pattern", at, f"more than {_MOST_PATTERNS} meet on one string")


class _Chains:
    def __init__(self, root: object) -> None:
        self._root = root
        self._known: dict[int, int] = {}
        self._open: set[int] = set()

    def patterns(self, schema: object, at: str) -> int:
        """How many regexes may meet on one string."""
        if not isinstance(schema, Mapping):
            return 0
        key = id(schema)
        if key in self._open:
            refuse("$ref", at, "it leads back to itself with nothing in between")
        if len(self._open) > _LONGEST:
            refuse("$ref", at, f"a chain of more than {_LONGEST}")
        if key not in self._known:
            self._open.add(key)
            self._known[key] = self._sum(schema, at)
            self._open.discard(key)
        return self._known[key]

    def _sum(self, schema: Node, at: str) -> int:
        total = ("pattern" in schema) + ("format" in schema)
        if "$ref" in schema:
            total += self.patterns(resolve(self._root, schema["$ref"], at), at)
        total += sum(self.patterns(member, at) for member in schema.get("allOf", ()))
        for key in ("anyOf", "oneOf"):
            total += max((self.patterns(member, at) for member in schema.get(key, ())), default=0)
        return total


def has_finite_value(root: object, nodes: Mapping[str, object]) -> bool:
    """Whether some finite value may fit: the schemas that have one, grown from the leaves."""
    inner = [node for node in nodes.values() if isinstance(node, Mapping)]
    users: dict[int, list[Node]] = {}
    for node in inner:
        for part in _needs(root, node):
            users.setdefault(id(part), []).append(node)
    fits: set[int] = set()
    left: list[Node] = list(inner)
    while left:
        node = left.pop()
        if id(node) not in fits and _fits(root, node, fits):
            fits.add(id(node))
            left += users.get(id(node), ())
    return _has(root, fits)


def _needs(root: object, schema: Node) -> Iterable[object]:
    if "$ref" in schema:
        yield resolve(root, schema["$ref"])
    yield from (member for _, member in subschemas(schema))


def _has(schema: object, fits: set[int]) -> bool:
    return schema is True or id(schema) in fits


def _fits(root: object, schema: Node, fits: set[int]) -> bool:
    if "$ref" in schema and not _has(resolve(root, schema["$ref"]), fits):
        return False
    if not all(_has(member, fits) for member in schema.get("allOf", ())):
        return False
    for key in ("anyOf", "oneOf"):
        if key in schema and not any(_has(member, fits) for member in schema[key]):
            return False
    return _is_leaf(schema) or _parts_fit(schema, fits)


def _is_leaf(schema: Node) -> bool:
    types = types_of(schema.get("type", "null")) or ()
    return any(name not in ("object", "array") for name in types) and "properties" not in schema


def _parts_fit(schema: Node, fits: set[int]) -> bool:
    properties, first = schema.get("properties", {}), schema.get("prefixItems", [])
    least = schema.get("minItems", 0)
    required = all(_has(properties.get(name, True), fits) for name in schema.get("required", ()))
    more = least <= len(first) or _has(schema.get("items", True), fits)
    return required and more and all(_has(item, fits) for item in first[:least])
