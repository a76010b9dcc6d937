"""A request that the engine has taken in: its tokens, state and sampler."""

import time
from collections.abc import Sequence as Ids

from colibri.engine.request import PrefillProgress, Request
from colibri.kvcache.sequence import SequenceState
from colibri.sampling import Sampler


class Sequence:
    def __init__(
        self, request: Request, state: SequenceState, sampler: Sampler, limit: int
    ) -> None:
        self.request = request
        self.state = state
        self.limit = limit  # prompt and answer together
        self.sampler = sampler
        self.generated: list[int] = []
        self.prefilled = 0
        self.started = time.perf_counter()

    @property
    def prompt(self) -> Ids[int]:
        return self.request.prompt_ids

    @property
    def in_prefill(self) -> bool:
        return self.prefilled < len(self.prompt)

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.generated)

    def next_ids(self, chunk: int) -> Ids[int]:
        """What the next step computes: a chunk of the prompt, or the last token."""
        if self.in_prefill:
            return self.prompt[self.prefilled : self.prefilled + chunk]
        return self.generated[-1:]

    def report(self, chunk: int, layer: int, layers: int, bytes_read: int) -> None:
        total, seconds = len(self.prompt), time.perf_counter() - self.started
        done = self.prefilled + chunk * layer / layers
        self.request.send(
            PrefillProgress(
                tokens_done=int(done),
                tokens_total=total,
                layer=layer,
                layers=layers,
                bytes_read=bytes_read,
                seconds=seconds,
                eta_seconds=seconds * (total - done) / done if done > 0 else None,
            )
        )
