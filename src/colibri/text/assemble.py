"""Tokens to text as it may be shown: whole characters, ending before a stop string, taken apart."""

from array import array
from bisect import bisect_left

from colibri.text.detokenizer import IncrementalDetokenizer
from colibri.text.parts import AnswerParser, Parts
from colibri.text.stop import StopMatcher
from colibri.text.tokenizer import Tokenizer


class StopWatch:
    """Whether the text of an answer's tokens has come to a stop string: for the engine, which ends
    the answer there however far behind its reader is. `continues`, `shown`: as the reader's."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: tuple[str, ...],
        continues: bool,
        shown: frozenset[int] = frozenset(),
    ) -> None:
        self._detokenizer = IncrementalDetokenizer(tokenizer, continues=continues, shown=shown)
        self._matcher = StopMatcher(stop)

    def __call__(self, token_id: int) -> bool:
        _, stopped = self._matcher.push(self._detokenizer.push(token_id))
        return stopped


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
        self._begins = array("q")  # of each token's text, in characters
        self._length = 0
        self.stopped = False

    @property
    def complete_calls(self) -> int:
        return self._parser.complete_calls

    @property
    def stopped_by(self) -> str | None:
        return self._matcher.matched

    @property
    def reasoning_tokens(self) -> int:
        """Tokens that begin within the reasoning or a tag of it. Exact once the text is finished:
        before, a tag may be half there."""
        extent = self._parser.reasoning
        if extent.begin is None:
            return 0
        end = len(self._begins) if extent.end is None else bisect_left(self._begins, extent.end)
        return end - bisect_left(self._begins, extent.begin)

    def push(self, token_id: int) -> Parts:
        text = self._detokenizer.push(token_id)
        self._begins.append(self._length)
        self._length += len(text)
        return self._emit(text)

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
