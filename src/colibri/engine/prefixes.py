"""Where prompts begin alike: a new sequence goes on from the longest beginning that is known."""

from collections.abc import Iterable

from colibri.engine.request import Request
from colibri.engine.sequence import Sequence
from colibri.kvcache.held import common
from colibri.kvcache.pool import Match, StatePool
from colibri.sampling import Sampler

_WORTH_WAITING = 16  # tokens


class Prefixes:
    def __init__(self, states: StatePool) -> None:
        self._states = states

    def sequence(self, request: Request, sampler: Sampler, limit: int) -> Sequence:
        """A sequence of so many positions at most, with what is known of its prompt."""
        match = self._match(request)
        held = self._states.take(limit, match, len(request.prompt_ids))
        sequence = Sequence(request, held, sampler, limit)
        if self._states.keeps and not held.state.trimmable:
            self._mark(sequence, match)
        return sequence

    def better_soon(self, request: Request, running: Iterable[Sequence]) -> bool:
        """Whether a prompt that is being read will have more of this one's beginning than there is
        now, at least half of what is read meanwhile. Where states cannot be cut, it is told to keep
        that place."""
        reading = [s for s in running if s.in_prefill and self._states.keeps]
        if not reading:
            return False
        match = self._match(request)
        known = match.length if match else 0
        ahead = [(self._shared(s, request), s) for s in reading]
        most, sequence = max(ahead, key=lambda pair: pair[0])
        if most < _WORTH_WAITING or 2 * (most - known) < most - sequence.prefilled:
            return False
        if sequence.prefilled >= most:
            return False
        if not sequence.held.state.trimmable:
            sequence.marks.add(most)
        return True

    def _match(self, request: Request) -> Match | None:
        """The last token is always computed: its logits are wanted."""
        if not self._states.keeps:
            return None
        prompt = request.prompt_array
        return self._states.match(prompt, len(prompt) - 1, request.params.prompt_logprobs)

    def _shared(self, sequence: Sequence, request: Request) -> int:
        """How much of the prompt the sequence will have read."""
        asked = request.params.prompt_logprobs
        theirs = sequence.request.params.prompt_logprobs
        if asked is not None and (theirs is None or theirs < asked):
            return 0
        mine, prompt = sequence.request.prompt_array, request.prompt_array
        n = min(len(mine), len(prompt) - 1)
        shared = common(mine[:n], prompt[:n])
        return shared if asked is None else max(0, shared - 1)

    def _mark(self, sequence: Sequence, match: Match | None) -> None:
        """Where the state cannot be cut it is kept at places: those that whoever asks thinks
        likely, before the prompt's last token, and where this prompt parts from a known one."""
        last = len(sequence.prompt) - 1
        found = {last, *sequence.request.marks}
        if match is not None:
            found.add(match.shared)
        sequence.marks = {n for n in found if 0 < n <= last}
        held = sequence.held
        if len(held) and len(held) not in held.marks:
            held.keep(len(held))
