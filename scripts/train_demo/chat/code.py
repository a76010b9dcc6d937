"""One-liners in Python, SQL and JavaScript, and small JSON objects."""

from __future__ import annotations

import json

from scripts.train_demo.chat.draw import Check, Draw, Task
from scripts.train_demo.chat.words import COLOURS, COUNTED

# Table -> (text columns, number columns); the judge fills the same tables.
TABLES = {
    "users": (["name", "city"], ["age"]),
    "books": (["title", "author"], ["year", "pages"]),
    "orders": (["status"], ["total", "year"]),
    "products": (["name", "colour"], ["price", "stock"]),
    "towns": (["name", "country"], ["population"]),
}

# name, argument, expression, description, calls with their results
_PYTHON = [
    ("last", "values", "values[-1]", "returns the last item of a list", [([4, 5], 5)]),
    ("total", "values", "sum(values)", "adds up a list", [([1, 2, 3], 6)]),
    ("largest", "values", "max(values)", "finds the largest value", [([3, 9, 2], 9)]),
    ("smallest", "values", "min(values)", "finds the smallest value", [([3, 9, 2], 2)]),
    ("backwards", "text", "text[::-1]", "reverses a text", [("abc", "cba")]),
    ("shout", "text", "text.upper()", "writes a text in capitals", [("ab", "AB")]),
    ("count_words", "text", "len(text.split())", "counts words", [("a b c", 3)]),
    ("is_even", "n", "n % 2 == 0", "checks if a number is even", [(4, True), (5, False)]),
    ("squares", "values", "[v * v for v in values]", "squares a list", [([2, 3], [4, 9])]),
    ("distinct", "values", "sorted(set(values))", "sorts without repeats", [([2, 1, 2], [1, 2])]),
]
_JAVASCRIPT = [
    ("last", "values", "values[values.length - 1]", "returns the last item of a list"),
    ("largest", "values", "Math.max(...values)", "finds the largest value"),
    ("backwards", "text", "[...text].reverse().join('')", "reverses a text"),
    ("shout", "text", "text.toUpperCase()", "writes a text in capitals"),
    ("isEven", "n", "n % 2 === 0", "checks if a number is even"),
    ("distinct", "values", "[...new Set(values)]", "removes repeats"),
]
_LEAD = ["Write a {0} function that {1}.", "{0}: a function that {1}.", "A {0} function that {1}?"]


def block(language: str, source: str) -> str:
    return f"```{language}\n{source}\n```"


def python(d: Draw) -> Task:
    x = d.number(2, 60)
    function, argument, expression, what, calls = d.pick(
        [
            *_PYTHON,
            *[
                (f"add_{x}", "n", f"n + {x}", f"adds {x}", [(3, 3 + x)]),
                (f"times_{x}", "n", f"n * {x}", f"multiplies by {x}", [(3, 3 * x)]),
                (f"above_{x}", "n", f"n > {x}", f"checks for more than {x}", [(x, False)]),
            ]
            * 3,
        ]
    )
    source = f"def {function}({argument}):\n    return {expression}"
    question = d.pick(_LEAD).format("Python", what)
    return Task("python", [question, block("python", source)], Check("python", calls))


def javascript(d: Draw) -> Task:
    x = d.number(2, 60)
    numbered = [
        (f"add{x}", "n", f"n + {x}", f"adds {x}"),
        (f"times{x}", "n", f"n * {x}", f"multiplies by {x}"),
    ]
    function, argument, expression, what = d.pick([*_JAVASCRIPT, *numbered * 3])
    answer = block("javascript", f"const {function} = ({argument}) => {expression};")
    question = d.pick(_LEAD).format("JavaScript", what)
    return Task("javascript", [question, answer], Check("exact", answer))


def sql(d: Draw) -> Task:
    table = d.pick(list(TABLES))
    texts, numbers = TABLES[table]
    text, number, x, colour = d.pick(texts), d.pick(numbers), d.number(2, 999), d.pick(COLOURS)
    what, query = d.pick(
        [
            (f"all {table}", f"SELECT * FROM {table};"),
            (f"the {text} of all {table}", f"SELECT {text} FROM {table};"),
            (f"{table} with {number} above {x}", f"SELECT * FROM {table} WHERE {number} > {x};"),
            (f"{table} with {number} below {x}", f"SELECT * FROM {table} WHERE {number} < {x};"),
            (
                f"{table} whose {text} is {colour}",
                f"SELECT * FROM {table} WHERE {text}='{colour}';",
            ),
            (f"the number of {table}", f"SELECT COUNT(*) FROM {table};"),
            (f"the average {number} of {table}", f"SELECT AVG({number}) FROM {table};"),
            (f"{table} sorted by {number}", f"SELECT * FROM {table} ORDER BY {number};"),
            (f"the highest {number} of {table}", f"SELECT MAX({number}) FROM {table};"),
        ]
    )
    question = d.pick(["SQL for {}?", "Write an SQL query for {}.", "Select {} in SQL."])
    return Task("sql", [question.format(what), block("sql", query)], Check("sql", query))


def json_object(d: Draw) -> Task:
    name, age, colour, things = d.name(), d.number(), d.pick(COLOURS), d.pick(COUNTED)
    options: list[dict[str, str | int]] = [
        {"name": name, "age": age},
        {"colour": colour, "item": d.noun()},
        {things: age},
    ]
    value = d.pick(options)
    listed = " and ".join(f"{key} {item}" for key, item in value.items())
    answer = json.dumps(value)
    return Task("json", [f"Write as JSON: {listed}.", answer], Check("exact", answer))
