"""Schemas of any kind that is enforced, made by hypothesis."""

from typing import Any

import hypothesis.strategies as st

SHORT = {"type": "string", "maxLength": 6}
TEXT = st.characters(exclude_categories=("Cs", "Cc"))
LEAVES = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("integer")},
        optional={"minimum": st.integers(-50, 0), "maximum": st.integers(1, 500)},
    ),
    st.fixed_dictionaries({"type": st.just("string"), "maxLength": st.integers(0, 8)}),
    st.just({"type": ["null", "boolean"]}),
    st.fixed_dictionaries({"enum": st.lists(st.text(TEXT, max_size=5), min_size=1, unique=True)}),
    st.fixed_dictionaries(
        {"const": st.recursive(st.none() | st.text(TEXT), st.lists, max_leaves=3)}
    ),
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(st.text(max_size=6), inner, max_size=3)
    return st.tuples(properties, st.booleans(), st.sampled_from([False, SHORT])).map(
        lambda made: {
            "type": "object",
            "properties": made[0],
            "required": list(made[0]) if made[1] else [],
            "additionalProperties": made[2],
        }
    )


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner.map(lambda item: {"type": "array", "items": item, "maxItems": 3})


ANY_SCHEMA = st.recursive(
    LEAVES,
    lambda inner: (
        objects(inner)
        | arrays(inner)
        | st.lists(inner, min_size=1, max_size=3).map(lambda members: {"anyOf": members})
    ),
    max_leaves=6,
)
