"""Tokens to text as it may be shown: whole characters, ending before a stop string, taken apart."""

from colibri.text.detokenizer import IncrementalDetokenizer
from colibri.text.parts import AnswerParser, Parts
from colibri.text.stop import StopMatcher
from colibri.text.tokenizer import Tokenizer


class TextAssembler:
    """`continues`: the text goes on from a prompt's, so a leading blank belongs to it. `shown`:
    special tokens that are text all the same, because the parser looks for them."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: tuple[str, ...],
        continues: bool,
        parser: AnswerParser | None = None,
        shown: frozenset[int] = frozenset(),
    ) -> None:
        self._detokenizer = IncrementalDetokenizer(tokenizer, continues=continues, shown=shown)
        self._matcher = StopMatcher(stop)
        self._parser = parser or AnswerParser(None, None)
        self.stopped = False

    @property
    def complete_calls(self) -> int:
        return self._parser.complete_calls

    @property
    def stopped_by(self) -> str | None:
        return self._matcher.matched

    def push(self, token_id: int) -> Parts:
        return self._emit(self._detokenizer.push(token_id))

    def finish(self) -> Parts:
        """What was held back: half a character, the beginning of a stop or a tag that did not
        come."""
        parts = self._emit(self._detokenizer.flush())
        if self.stopped:
            return parts
        return parts + self._parser.push(self._matcher.flush()) + self._parser.finish()

    def _emit(self, text: str) -> Parts:
        if self.stopped:
            return Parts()
        shown, self.stopped = self._matcher.push(text)
        parts = self._parser.push(shown)
        return parts + self._parser.finish() if self.stopped else parts
