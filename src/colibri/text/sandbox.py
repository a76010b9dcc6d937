"""The jinja2 environment for chat templates: what transformers offers, bounded in steps, time and
size.

A template comes with a download and is not trusted. jinja2's sandbox keeps it from the
interpreter; the limits here keep it from running for ever or filling memory. Loops, macros and
calls are counted as they run; whatever makes one large string from small ones is measured before
it is made.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from colibri.text.limits import Account, TemplateLimits

_WIDTH = re.compile(r"\d{7,}")


# Filters that write nothing out: what they give back is no longer than what they get. All others
# are measured first, what a newer jinja2 may add included.
# fmt: off
_SMALL = frozenset({
    "abs", "attr", "batch", "count", "d", "default", "dictsort", "first", "float", "groupby",
    "int", "items", "last", "length", "list", "map", "max", "min", "random", "reject",
    "rejectattr", "reverse", "round", "select", "selectattr", "slice", "sort", "unique",
})
# fmt: on


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """May render several templates at a time, each in a thread: `start` begins its account."""

    intercepted_binops = frozenset("+*%") | {"**"}

    def __init__(self, limits: TemplateLimits, now: Callable[[], datetime]) -> None:
        extensions = [GenerationTag, loopcontrols]
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=extensions
        )
        self.limits = limits
        self.finalize = self._finalize
        self._rendering = threading.local()
        own = {**self.filters, "tojson": _tojson}
        self.filters = {name: self._bounded(name, run) for name, run in own.items()}
        del self.globals["lipsum"]
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda form: now().strftime(form)
        self.code_generator_class = _BoundedCode
        self.start({})  # constants are computed while a template is compiled

    def start(self, values: Mapping[str, Any]) -> Account:
        """values: what the template is about to be rendered with."""
        account = self._rendering.account = Account(self.limits, values)
        return account

    @property
    def _account(self) -> Account:
        account: Account = self._rendering.account
        return account

    def turn(self) -> None:
        """A loop's turn or a macro's body; that it is called is what counts."""

    def concat(self, parts: Iterable[str]) -> str:
        """What macros and {% set %} blocks put together."""
        parts = list(parts)
        self._account.make(sum(map(len, parts)))
        return "".join(parts)

    def concat_values(self, *parts: object) -> str:
        self._account.measure(parts)
        return self.concat(map(str, parts))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        self._account.make(_result_size(operator, left, right))
        if operator == "%" and isinstance(left, str):
            self._account.measure(right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        self._account.tick()
        subject = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(subject, str):
            self._check_arguments(getattr(obj, "__name__", ""), subject, args, kwargs)
        return self._made_by(super().call(context, obj, *args, **kwargs))

    def _bounded(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """A filter whose arguments are looked at first. Some take a context before the subject."""
        lead = 1 if hasattr(run, "jinja_pass_arg") else 0

        def bounded(*args: Any, **kwargs: Any) -> Any:
            self._account.tick()
            subject, *rest = args[lead:]
            self._check_arguments(name, subject, rest, kwargs)
            return self._made_by(run(*args, **kwargs))

        bounded.__dict__.update(getattr(run, "__dict__", {}))  # what it wants to be called with
        return bounded

    def _check_arguments(
        self, name: str, subject: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        account = self._account
        if name not in _SMALL:
            account.measure(subject)
        for value in (*args, *kwargs.values()):
            account.check_size(abs(value) if isinstance(value, int) else 0)  # a width or a count
            account.measure(value)
        if isinstance(subject, str):
            account.check_size(_string_size(name, subject, args))
        elif name == "join" and args and hasattr(subject, "__len__"):
            account.check_size(len(subject) * len(str(args[0])))

    def _finalize(self, value: Any) -> Any:
        self._account.measure(value)
        return self._made_by(value)

    def _made_by(self, value: Any) -> Any:
        self._account.make(_length(value))
        return value


def _result_size(operator: str, left: Any, right: Any) -> float:
    """How long a value would be: characters, items, or digits of a number."""
    if operator == "+":
        return _length(left) + _length(right)
    if operator == "*":
        count = right if isinstance(right, int) else left if isinstance(left, int) else 0
        return max(_length(left), _length(right)) * max(count, 0)
    if operator == "%" and isinstance(left, str):
        return inf if _WIDTH.search(left) else 0
    if operator == "**" and isinstance(left, int) and isinstance(right, int):
        return left.bit_length() * max(right, 0)
    return 0


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0


def _string_size(name: str, subject: str, args: Sequence[Any]) -> float:
    """How long the results of the few methods are that make much out of little."""
    if name == "replace" and len(args) >= 2:
        return len(subject) + subject.count(str(args[0])) * len(str(args[1]))
    if name == "join" and args and hasattr(args[0], "__len__"):
        return len(subject) * len(args[0])
    if name in ("format", "format_map") and _WIDTH.search(subject):
        return inf
    return 0


class GenerationTag(Extension):
    """{% generation %} ... {% endgeneration %}: marks the assistant's words for training; here only
    its body.
    """

    tags = {"generation"}  # noqa: RUF012  (jinja2's own form)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _BoundedCode(CodeGenerator):
    """Loops and macros report each turn; `~` is measured."""

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        _count_turns(node)
        super().visit_For(node, frame)

    def macro_body(self, node: Any, frame: Frame) -> Any:
        _count_turns(node)
        return super().macro_body(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.concat_values(")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write(")")


def _count_turns(node: nodes.For | nodes.Macro | nodes.CallBlock) -> None:
    tick = nodes.Call(nodes.EnvironmentAttribute("turn"), [], [], None, None)
    node.body.insert(0, nodes.ExprStmt(tick, lineno=node.lineno))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is: jinja2's own filter writes it for HTML, with < and & escaped."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    raise TemplateError(message)
