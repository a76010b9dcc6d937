"""A model's grammars: its vocabulary, prepared when first needed, and what was compiled lately."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from colibri.grammar.answers import AnswerForm, stages_of
from colibri.grammar.matcher import Matcher
from colibri.grammar.structure import Structure

if TYPE_CHECKING:
    from colibri.grammar.compiler import Grammar
    from colibri.grammar.vocabulary import TokenizerLike, Vocabulary

_KEPT = 32


class Grammars:
    """May be called from several threads, never from the engine's: compiling takes its time."""

    def __init__(self, tokenizer: TokenizerLike, end_ids: frozenset[int]) -> None:
        self._tokenizer, self._end_ids = tokenizer, end_ids
        self._vocabulary: Vocabulary | None = None
        self._kept: OrderedDict[Structure, Grammar] = OrderedDict()
        self._lock = Lock()

    def compiled(self, structure: Structure) -> Grammar:
        """GrammarError where it cannot be enforced."""
        from colibri.grammar.compiler import compile_grammar

        with self._lock:
            if structure in self._kept:
                self._kept.move_to_end(structure)
                return self._kept[structure]
        grammar = compile_grammar(structure, self.vocabulary)
        with self._lock:
            self._kept[structure] = grammar
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return grammar

    @property
    def vocabulary(self) -> Vocabulary:
        from colibri.grammar.vocabulary import Vocabulary

        with self._lock:
            if self._vocabulary is None:
                special = self._tokenizer.special_ids | self._end_ids
                self._vocabulary = Vocabulary(self._tokenizer, special)
            return self._vocabulary

    def matcher(self, form: AnswerForm, *, ignore_eos: bool = False) -> Matcher:
        """For one answer."""
        stages, first = stages_of(form, self.compiled)
        end_ids = frozenset() if ignore_eos else self._end_ids
        return Matcher(stages, first, self.vocabulary, end_ids)
