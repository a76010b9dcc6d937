"""Tokens to text as it may be shown: whole characters, ending before a stop string."""

from colibri.text.detokenizer import IncrementalDetokenizer
from colibri.text.stop import StopMatcher
from colibri.text.tokenizer import Tokenizer


class TextAssembler:
    """`continues`: the text goes on from a prompt's, so a leading blank belongs to it."""

    def __init__(self, tokenizer: Tokenizer, stop: tuple[str, ...], continues: bool) -> None:
        self._detokenizer = IncrementalDetokenizer(tokenizer, continues=continues)
        self._matcher = StopMatcher(stop)
        self.stopped = False

    def push(self, token_id: int) -> str:
        return self._emit(self._detokenizer.push(token_id))

    def finish(self) -> str:
        """What was held back: half a character, the beginning of a stop that did not come."""
        text = self._emit(self._detokenizer.flush())
        return text if self.stopped else text + self._matcher.flush()

    def _emit(self, text: str) -> str:
        if self.stopped:
            return ""
        shown, self.stopped = self._matcher.push(text)
        return shown
