"""A model's chat template: messages to the prompt text it was trained on."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError, meta

from colibri.config.sizes import shown
from colibri.errors import ConfigError, TokenizerError
from colibri.text.files import read_object, read_text
from colibri.text.limits import TemplateLimits
from colibri.text.sandbox import ChatEnvironment
from colibri.text.special import load_special_tokens

MAX_TEMPLATE_BYTES = 2_000_000

ROLES = ("system", "developer", "user", "assistant", "tool")
_SAYS = ("tool_calls", "reasoning_content")  # what an answer may have in place of content

# What the statements of a template can raise, jinja2's own errors aside.
_FAULTS = (
    TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    """render(messages) gives the prompt; TokenizerError carries the template's own complaint.

    sources: name -> template; "default" is used, or "tool_use" when there are tools. variables:
    bos_token and the like. Safe to share between threads, which do not
    wait for each other.
    """

    def __init__(
        self,
        sources: Mapping[str, str],
        variables: Mapping[str, str],
        *,
        where: str = "chat template",
        limits: TemplateLimits | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._environment = ChatEnvironment(limits or TemplateLimits(), now)
        self._variables = dict(variables)
        self._where = where
        self._templates = {name: self._compile(text) for name, text in sources.items()}
        self.source = "\n".join(sources.values())
        self.takes = self._taken(sources.values())

    @classmethod
    def load(cls, directory: Path) -> "ChatTemplate | None":
        """From chat_template.jinja, chat_template.json or tokenizer_config.json; None when there is
        none.
        """
        found = find_sources(directory)
        if found is None:
            return None
        path, sources = found
        return cls(sources, load_special_tokens(directory).named, where=str(path))

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """The prompt text. kwargs (enable_thinking, reasoning_effort, documents ...) are the
        template's variables.
        """
        check_messages(messages)
        template = self._choose(bool(tools))
        values = self._variables | {"documents": None} | kwargs
        values |= {"messages": list(messages), "tools": list(tools) if tools else None}
        values["add_generation_prompt"] = add_generation_prompt
        try:
            return self._run(template, values)
        except _FAULTS as error:
            raise TokenizerError(f"{self._where}: {_words(error)}") from None

    def _run(self, template: Template, values: dict[str, Any]) -> str:
        account = self._environment.start(values)
        parts, size = [], 0
        for part in template.generate(values):
            size += len(part)
            account.check_size(size)
            parts.append(part)
        return "".join(parts)

    def _choose(self, with_tools: bool) -> Template:
        for name in ("tool_use", "default") if with_tools else ("default",):
            if name in self._templates:
                return self._templates[name]
        names = ", ".join(sorted(self._templates))
        raise TokenizerError(f"{self._where}: no template named default among: {names}")

    def _taken(self, sources: Iterable[str]) -> frozenset[str]:
        """Names of variables that a caller may give."""
        parsed = map(self._environment.parse, sources)
        asked = frozenset().union(*map(meta.find_undeclared_variables, parsed))
        return asked - self._environment.globals.keys() - {"messages", "tools"}

    def _compile(self, text: str) -> Template:
        try:
            return self._environment.from_string(text)
        except _FAULTS as error:
            raise TokenizerError(f"{self._where}: not a usable template: {_words(error)}") from None


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """A template would render anything, letter by letter, without a complaint."""
    fit = isinstance(messages, Sequence) and not isinstance(messages, str) and len(messages) > 0
    if not fit or not all(isinstance(m, Mapping) and "role" in m for m in messages):
        raise ConfigError('messages must be a list of {"role": ..., "content": ...}, one or more')
    for at, message in enumerate(messages):
        _check_message(message, f"messages[{at}]")


def _check_message(message: Mapping[str, Any], where: str) -> None:
    role, content = message["role"], message.get("content")
    if not isinstance(role, str) or role not in ROLES:
        said = f"{where}: the role is {shown(role)}; it may be {', '.join(ROLES)}"
        raise ConfigError(said, f"{where}.role")
    if content is None and not (role == "assistant" and any(map(message.get, _SAYS))):
        raise ConfigError(f'{where}: has no "content"', f"{where}.content")
    if not isinstance(content, str | list | None):
        said = f"{where}: the content is {shown(content)}, neither text nor a list of parts"
        raise ConfigError(said, f"{where}.content")


def _words(error: BaseException) -> str:
    line = getattr(error, "lineno", None)
    kind = "" if isinstance(error, TemplateError) else f"{type(error).__name__}: "
    return f"{kind}{error}" + (f" (line {line})" if line else "")


def find_sources(directory: Path) -> tuple[Path, dict[str, str]] | None:
    """The file that has a checkpoint's templates, and these by name."""
    path = directory / "chat_template.jinja"
    if os.path.lexists(path):
        return path, {"default": read_text(path, limit=MAX_TEMPLATE_BYTES)}
    for name in ("chat_template.json", "tokenizer_config.json"):
        path = directory / name
        value = read_object(path).get("chat_template") if os.path.lexists(path) else None
        if value is not None:
            return path, _sources(value, path)
    return None


def _sources(value: object, path: Path) -> dict[str, str]:
    """One template, or a list of {"name", "template"}."""
    if isinstance(value, str):
        return {"default": value}
    entries = value if isinstance(value, list) else [value]
    sources: dict[str, str] = {}
    for entry in entries:
        fields = entry if isinstance(entry, dict) else {}
        name, text = fields.get("name"), fields.get("template")
        if not isinstance(name, str) or not isinstance(text, str):
            raise TokenizerError(f"{path}: chat_template is neither text nor a list of named texts")
        sources[name] = text
    return sources
