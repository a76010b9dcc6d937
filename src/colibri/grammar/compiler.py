"""From a structure to a compiled grammar, within bounded size and time, or a GrammarError that says
where it is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from colibri.errors import GrammarError
from colibri.grammar.gbnf import gbnf_to_lark
from colibri.grammar.keywords import refuse
from colibri.grammar.lark import check_lark
from colibri.grammar.messages import explained
from colibri.grammar.regex import check_repeats, escaped
from colibri.grammar.schema import patterns, read_schema
from colibri.grammar.structure import Structure
from colibri.grammar.vocabulary import Vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher

# Between two tokens of JSON: nothing, a blank, or a line break and what indents the next line. Any
# number of them, which the standard allows, is where models lose themselves.
WHITESPACE = r" |\n[ \t]{0,24}"
# No \uXXXX: a key that is to differ from those that have a schema could be one of them, so spelt.
JSON_OPTIONS: dict[str, Any] = {
    "whitespace_pattern": WHITESPACE,
    "json_allowed_escapes": 'nrbtf\\"',
}

# Of work units (see llguidance's LLParserLimits), far more than sane grammars take: compiling ends
# within a second or two, a mask within tens of milliseconds, and a lexer stays below some 40 MB.
_LIMITS: dict[str, Any] = {
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 50_000,
    "step_max_items": 50_000,
    "max_lexer_states": 20_000,
    "max_grammar_size": 200_000,
    "verbose_errors": False,
}


class Grammar:
    """A compiled structure, good for any number of answers."""

    def __init__(self, structure: Structure, matcher: LLMatcher, vocabulary: Vocabulary) -> None:
        self.structure, self.vocabulary = structure, vocabulary
        self._matcher = matcher
        self._lock = Lock()

    def start(self) -> LLMatcher:
        """At the beginning of an answer; the caller's own."""
        with self._lock:  # requests begin on any thread
            return self._matcher.deep_copy()


def compile_grammar(structure: Structure, vocabulary: Vocabulary) -> Grammar:
    """GrammarError: what of it is wrong or not supported. Takes up to seconds: not for the engine's
    thread."""
    from llguidance import LLMatcher, LLParserLimits

    text = _source(structure)
    limits = LLParserLimits(**_LIMITS)
    matcher = LLMatcher(vocabulary.compiled, text, limits=limits, log_level=0)
    _check(matcher, structure)
    first = matcher.deep_copy()  # the first mask does the work that was put off
    mask = first.compute_bitmask()
    _check(first, structure)
    if not any(mask):
        raise GrammarError(f"{structure.kind}: no text fits it")
    return Grammar(structure, matcher, vocabulary)


def check_enforceable(schema: Mapping[str, Any]) -> None:
    """That a schema can be compiled, whatever the vocabulary; GrammarError names what cannot."""
    read = read_schema(Structure.json_schema(schema).source)
    if message := _refusal(read):
        check_patterns(read)
        raise GrammarError(f"json_schema: {explained(message)}")


def check_patterns(schema: Any) -> None:
    """That each pattern of a checked schema can be compiled; GrammarError says where the first
    stands that cannot."""
    sound: set[str] = set()
    for keyword, at, pattern in patterns(schema):
        if pattern not in sound and (message := _refusal({"type": "string", "pattern": pattern})):
            refuse(keyword, at, explained(message))
        sound.add(pattern)


def _refusal(schema: Any) -> str:
    """The compiler's; empty where it takes the schema."""
    from llguidance import LLMatcher, LLParserLimits

    message: str = LLMatcher.validate_grammar(_schema(schema), limits=LLParserLimits(**_LIMITS))
    return message


def _check(matcher: LLMatcher, structure: Structure) -> None:
    if matcher.is_error():
        if structure.kind == "json_schema":
            check_patterns(read_schema(structure.source))  # the compiler names no place
        raise GrammarError(f"{structure.kind}: {explained(matcher.get_error())}")


def _source(structure: Structure) -> str:
    from llguidance import LLMatcher

    match structure.kind:
        case "json_object":
            return _schema({"type": "object"})
        case "json_schema":
            return _schema(read_schema(structure.source))
        case "regex":
            check_repeats(structure.source, "regex")
            return LLMatcher.grammar_from_regex(structure.source)
        case "choice":
            options = json.loads(structure.source)
            return LLMatcher.grammar_from_regex("|".join(map(escaped, options)))
        case "gbnf":
            return LLMatcher.grammar_from_lark(gbnf_to_lark(structure.source))
        case "lark":
            check_lark(structure.source)
    return LLMatcher.grammar_from_lark(structure.source)


def _schema(schema: Any) -> str:
    from llguidance import LLMatcher

    text = json.dumps({} if schema is True else schema)  # to which options can be added
    return LLMatcher.grammar_from_json_schema(text, overrides=JSON_OPTIONS)  # type: ignore[arg-type]
