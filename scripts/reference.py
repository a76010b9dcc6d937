"""The generated parts of docs/python.md: classes, methods and errors from their docstrings.

Everything is read from the source with `ast`, so what stands there is what the page shows: types
and defaults as written, the docstring of a method, and of a field the string that follows it. A
public field or method without one is an error.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from colibri import errors
from colibri.cli.errors import exit_code_of
from colibri.sampling.params import range_of
from colibri.server.http.errors import status_of

# What LLM has for measuring and for the commands; it may change with them.
INNER = (
    "chat_format",
    "config",
    "container",
    "experts",
    "fingerprint",
    "planes",
    "restart_trace",
    "usage",
)
RESULTS = (
    ("colibri.answer", "Completion"),
    ("colibri.answer", "Chunk"),
    ("colibri.answer", "TokenLogprob"),
    ("colibri.text.parts", "ToolCall"),
    ("colibri.text.parts", "ToolCallDelta"),
    ("colibri.llm.scores", "Scores"),
    ("colibri.llm.scores", "Choice"),
    ("colibri.engine.request", "PrefillProgress"),
    ("colibri.engine.status", "EngineStatus"),
    ("colibri.engine.status", "RequestStatus"),
    ("colibri.runtime.stats", "Stats"),
)


def llm() -> str:
    return _page(_class_text("colibri.llm.model", "LLM"))


def sampling() -> str:
    return _page(_class_text("colibri.sampling.params", "SamplingParams", range_of))


def options() -> str:
    return _page(_class_text("colibri.text.chat", "ChatOptions"))


def structure() -> str:
    return _page(_class_text("colibri.grammar.structure", "Structure"))


def results() -> str:
    return _page(part for home, name in RESULTS for part in _class_text(home, name))


def error_table() -> str:
    lines = ["| error | exit code | HTTP status | |", "|---|---|---|---|"]
    for name in _error_names():
        kind = getattr(errors, name)
        status, code = status_of(kind)
        shown = f"{status}" + (f", `{code}`" if code else "")
        lines.append(f"| `{name}` | {exit_code_of(kind)} | {shown} | {_line(kind.__doc__)} |")
    return "\n".join(lines) + "\n"


def _error_names() -> list[str]:
    tree = ast.parse(inspect.getsource(errors))
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def _page(parts: Iterator[str]) -> str:
    return "\n\n".join(parts) + "\n"


def _class_text(
    home: str, name: str, range_of: Callable[[str], str | None] = lambda _: None
) -> Iterator[str]:
    source = _source(home)
    classes = (n for n in ast.parse(source).body if isinstance(n, ast.ClassDef))
    node = next(n for n in classes if n.name == name)
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and _is_shown(n)]
    yield f"### {name}"
    yield from (_signature(m, source, name) for m in methods if m.name == "__init__")
    yield _doc(node, name)
    if table := _table(_fields(node, range_of)):
        yield table
    for method in methods:
        if method.name != "__init__":
            yield f"#### `{method.name}`"
            yield _signature(method, source, name)
            yield _doc(method, f"{name}.{method.name}")


def _source(home: str) -> str:
    spec = find_spec(home)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def _is_shown(method: ast.FunctionDef) -> bool:
    own = not method.name.startswith("_") or method.name == "__init__"
    overload = any(ast.unparse(d) == "overload" for d in method.decorator_list)
    return own and not overload and method.name not in INNER


def _signature(method: ast.FunctionDef, source: str, owner: str) -> str:
    """As the source has it, without self or cls and as it is called: a property is no call."""
    lines = source.splitlines()[method.lineno - 1 : method.body[0].lineno - 1]
    text = textwrap.dedent("\n".join(lines)).removeprefix("def ").rstrip(":")
    text = re.sub(r"\A(\w+\(\s*)(self|cls)(,\s*|)", r"\1", text)
    decorators = {ast.unparse(d) for d in method.decorator_list}
    if "property" in decorators:
        text = text.replace("()", "")
    if method.name == "__init__":
        text = text.replace("__init__", owner).removesuffix(" -> None")
    prefix = f"{owner}." if "classmethod" in decorators else ""
    return f"```\n{prefix}{text}\n```"


Row = tuple[str, str, str, str]  # field, type, default, what it is


def _table(rows: Iterator[Row]) -> str:
    """Without the column of defaults where no field has one."""
    table = [("field", "type", "default", ""), ("---",) * 4, *rows]
    bare = not any(default for _, _, default, _ in table[2:])
    shown = [(a, b, d) if bare else (a, b, c, d) for a, b, c, d in table]
    return "\n".join(f"| {' | '.join(row)} |" for row in shown) if table[2:] else ""


def _fields(node: ast.ClassDef, range_of: Callable[[str], str | None]) -> Iterator[Row]:
    for field, following in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name, said = field.target.id, _text(following)
        if not said:
            raise ValueError(f"{node.name}.{name} has no docstring")
        allowed = range_of(name)
        kind = ast.unparse(field.annotation).replace("|", "\\|")
        kind = f"`{kind}`" + (f": {allowed}" if allowed else "")
        yield f"`{name}`", kind, _default(field.value), _line(said)


def _default(value: ast.expr | None) -> str:
    if value is None:
        return ""
    text = ast.unparse(value)
    return "`{}`" if text == "field(default_factory=dict)" else f"`{text}`"


def _text(node: ast.stmt | None) -> str:
    """The string that stands there by itself; "" for any other statement."""
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _doc(node: ast.ClassDef | ast.FunctionDef, name: str) -> str:
    if not (text := ast.get_docstring(node)):
        raise ValueError(f"{name} has no docstring")
    return text


def _line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
