"""The jinja2 environment for chat templates: what transformers offers, bounded in steps, time and
size.

A template comes with a download and is not trusted. jinja2's sandbox keeps it from the
interpreter; the limits here keep it from running for ever or filling memory. Loops, macros and
calls are counted as they run; whatever makes one large value from small ones is measured before
it is made (bounds.py), and so are lists before they are compared. What a value can be asked for is
listed (allowed.py).
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, operators
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from colibri.text import bounds
from colibri.text.allowed import FILTERS, is_allowed
from colibri.text.limits import Account, TemplateLimits

# Filters and methods that neither write out what they get nor compare its items. All others measure
# it first.
# fmt: off
_SMALL = frozenset({
    "abs", "attr", "batch", "copy", "d", "default", "first", "float", "get", "int", "items",
    "keys", "last", "length", "list", "map", "reject", "rejectattr", "reverse", "round", "select",
    "selectattr", "slice", "values",
})
_SMALL_TESTS = frozenset({
    "boolean", "callable", "defined", "divisibleby", "escaped", "even", "false", "filter", "float",
    "integer", "iterable", "mapping", "none", "number", "odd", "sameas", "sequence", "string",
    "test", "true", "undefined",
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
        own = {**self.filters, "tojson": self._tojson}
        self.filters = {name: self._bounded(name, own[name]) for name in sorted(FILTERS)}
        self.tests = {name: self._measured(name, run) for name, run in self.tests.items()}
        del self.globals["lipsum"]
        self.globals["namespace"] = _Namespace
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda form: self._date(now(), form)
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

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return is_allowed(obj, attr) and super().is_safe_attribute(obj, attr, value)

    def getitem(self, obj: Any, argument: Any) -> Any:
        self._account.measure(argument)  # it may be hashed, or named in a complaint
        return super().getitem(obj, argument)

    def sliced(self, obj: Any, *where: int | None) -> Any:
        return self.made(obj[slice(*where)])

    def compared(self, value: Any) -> Any:
        """Lists are compared item by item, however often one stands in another."""
        self._account.measure(value)
        return value

    def made(self, value: Any) -> Any:
        self._account.make(bounds.length(value))
        return value

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        into_text = operator == "%" and isinstance(left, str)
        largest = self._account.measure(right) if into_text else 0
        self._account.make(bounds.operation(operator, left, right, largest))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        self._account.tick()
        subject = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(subject, str | list | tuple | Mapping):
            args = tuple(map(_settled, args))
            self._check_arguments(getattr(obj, "__name__", ""), subject, args, kwargs)
        else:
            for value in (*args, *kwargs.values()):
                self._account.measure(value)
        return self.made(super().call(context, obj, *args, **kwargs))

    def _bounded(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """A filter whose arguments are looked at first. Some take a context before the subject."""
        lead = 1 if hasattr(run, "jinja_pass_arg") else 0

        def bounded(*args: Any, **kwargs: Any) -> Any:
            self._account.tick()
            subject, *rest = args[lead:]
            subject = subject if name in _SMALL else _settled(subject)
            self._check_arguments(name, subject, rest, kwargs)
            return self.made(run(*args[:lead], subject, *rest, **kwargs))

        bounded.__dict__.update(getattr(run, "__dict__", {}))  # what it wants to be called with
        return bounded

    def _measured(self, name: str, run: Any) -> Any:
        """A test: most compare, or write out what they get."""
        if name in _SMALL_TESTS:
            return run

        def measured(*args: Any) -> Any:
            for value in args:
                self._account.measure(value)
            return run(*args)

        measured.__dict__.update(getattr(run, "__dict__", {}))
        return measured

    def _check_arguments(
        self, name: str, subject: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        account, given = self._account, [*args, *kwargs.values()]
        written = 0 if name in _SMALL else account.measure(subject)
        largest = max(map(account.measure, given), default=0)
        account.check_size(bounds.call(name, subject, given, written, largest))

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """JSON as it is: jinja2's own filter writes it for HTML, with < and & escaped. In pieces,
        since the spaces before a line grow with its depth."""
        if not isinstance(indent, int | None):
            raise TypeError("the indent of tojson is a number")
        self._account.check_size(indent or 0)
        writer = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        if indent is None and separators is None:
            return writer.encode(value)
        parts, size = list[str](), 0
        for part in writer.iterencode(value):
            size += len(part)
            self._account.check_size(size)
            parts.append(part)
        return "".join(parts)

    def _date(self, day: datetime, form: str) -> str:
        self._account.check_size(256 * len(form))  # as wide as a field of a date can be
        return day.strftime(form)

    def _finalize(self, value: Any) -> Any:
        self._account.measure(value)
        return self.made(value)


class _Namespace(Namespace):
    """Written out, one would show all it holds, which nobody measured."""

    def __repr__(self) -> str:
        return "<namespace>"


def _settled(value: Any) -> Any:
    """What is still to be made (by `map`, say) as a list, which can be measured."""
    return list(value) if isinstance(value, Iterator) else value


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
    """Loops and macros report each turn; what the template's own signs make or compare (`~`, `==`,
    `in`, slices, lists) is measured."""

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        _count_turns(node)
        super().visit_For(node, frame)

    def macro_body(self, node: Any, frame: Frame) -> Any:
        _count_turns(node)
        return super().macro_body(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self._call("concat_values", *node.nodes, frame=frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        parts = node.arg.start, node.arg.stop, node.arg.step
        self._call("sliced", node.node, *(part or nodes.Const(None) for part in parts), frame=frame)

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        self.write("(")
        self._call("compared", node.expr, frame=frame)
        for operand in node.ops:
            self.visit(operand, frame)
        self.write(")")

    def visit_Operand(self, node: nodes.Operand, frame: Frame) -> None:
        self.write(f" {operators[node.op]} ")
        self._call("compared", node.expr, frame=frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self.write("environment.made(")
        super().visit_List(node, frame)
        self.write(")")

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        made = node.ctx == "load"  # not the names that a loop or {% set %} fills
        self.write("environment.made(" if made else "")
        super().visit_Tuple(node, frame)
        self.write(")" if made else "")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        """Keys are hashed, which reads them whole."""
        self.write("environment.made({")
        for pair in node.items:
            self._call("compared", pair.key, frame=frame)
            self.write(": ")
            self.visit(pair.value, frame)
            self.write(", ")
        self.write("})")

    def _call(self, name: str, *parts: nodes.Expr, frame: Frame) -> None:
        self.write(f"environment.{name}(")
        for part in parts:
            self.visit(part, frame)
            self.write(", ")
        self.write(")")


def _count_turns(node: nodes.For | nodes.Macro | nodes.CallBlock) -> None:
    tick = nodes.Call(nodes.EnvironmentAttribute("turn"), [], [], None, None)
    node.body.insert(0, nodes.ExprStmt(tick, lineno=node.lineno))


def _raise_exception(message: str) -> None:
    raise TemplateError(message)
