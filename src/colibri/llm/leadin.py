"""Where a model's own answer comes to an option: the place at which options are compared.

A model that answers "The capital of France is Paris." finds every bare city unlikely right after
the question, and which of them least so says little. So it first begins its own answer, and options
are held against it where one of them would be named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from colibri.answer import awaited
from colibri.engine.request import Event, Failed, Finished, PrefillProgress, Request, Token
from colibri.errors import Cancelled
from colibri.sampling import SamplingParams

# Greedy, with the alternatives at each token. An answer that has named no option by then does not.
PARAMS = SamplingParams(temperature=0.0, max_tokens=24, logprobs=20)
FAINT = 0.02  # less than this is no place
MOST_PLACES = 4


@dataclass(frozen=True)
class Place:
    """lead_in: the model's answer up to there. blank: what stands before an option. capital:
    whether options begin with a capital letter there, as at the beginning of a sentence. mass: the
    probability that what follows begins an option. found: False if the answer names none of them,
    so that this is only its beginning."""

    lead_in: str = ""
    blank: str = ""
    capital: bool = False
    mass: float = 0.0
    found: bool = True

    def option(self, option: str) -> str:
        """As it would be written there."""
        return self.blank + (option[0].upper() + option[1:] if self.capital else option)


BEGINNING = Place()  # of the answer, or where it does not count


class LeadIn:
    """An answer on its way, of which only the places count.

    decode: of an answer's tokens. prompt: what is answered. An option that stands in it may be
    named because the answer repeats the question, so that does not end the search.
    """

    def __init__(
        self,
        request: Request,
        decode: Callable[[Sequence[int]], str],
        options: Sequence[str],
        prompt: str = "",
    ) -> None:
        self.request = request
        self.prompt = prompt
        self.places: tuple[Place, ...] = (BEGINNING,)  # the likeliest in their order, once finished
        self.finished = False
        self._decode = decode
        self._options = options
        self._ids: list[int] = []
        self._text = ""  # of these
        self._seen: list[Place] = []
        whole = "|".join(map(re.escape, sorted(options, key=len, reverse=True)))
        self._named = re.compile(rf"(?<!\w)({whole})(?=\W)", re.IGNORECASE)

    @property
    def tokens(self) -> int:
        """That were generated."""
        return len(self._ids)

    @property
    def read_tokens(self) -> int:
        """That were computed to find the places."""
        request = self.request
        return len(request.prompt_ids) - request.cached_tokens + max(0, self.tokens - 1)

    def push(self, event: Event) -> LeadIn | PrefillProgress | None:
        """Itself with its places, once the answer has named an option or ended. Raises the error
        that ended it."""
        match event:
            case PrefillProgress():
                return event
            case Failed():
                raise event.error
            case Token():
                self._look(event)
                asked = self.prompt.lower()
                if any(name.lower() not in asked for name in self._names().values()):
                    return self._found()
            case Finished():
                if event.reason == "cancelled":
                    raise Cancelled("the question was cancelled")
                return self._found()
        return None

    def wait(self) -> LeadIn:
        return awaited(self)

    def _found(self) -> LeadIn:
        self.finished = True
        self.request.cancel()
        inside = {n for at, name in self._names().items() for n in range(at + 1, at + len(name))}
        places = [p for p in self._seen if len(p.lead_in + p.blank) not in inside]
        likely = sorted(places, key=lambda place: -place.mass)[:MOST_PLACES]
        places = [p for p in places if p in likely and p.mass >= FAINT]
        self.places = tuple(places) or (Place(found=False),)
        return self

    def _names(self) -> dict[int, str]:
        """The options that the answer names so far, by where; within one another may seem to be."""
        return {m.start(): m[0] for m in self._named.finditer(self._text)}

    def _look(self, token: Token) -> None:
        """At the place before the token."""
        before = self._text
        self._ids.append(token.id)
        self._text = self._decode(self._ids)
        blank = " " if self._text[len(before) :].startswith(" ") else ""
        begun = [(self._piece(before, other), logprob) for other, logprob in token.top]
        for capital in (False, True):
            options = [Place(capital=capital).option(option) for option in self._options]
            if capital and options == list(self._options):
                continue
            mass = math.fsum(math.exp(lp) for piece, lp in begun if _begins(options, piece))
            self._seen.append(Place(before, blank, capital, mass))

    def _piece(self, before: str, token_id: int) -> str:
        return self._decode([*self._ids[:-1], token_id])[len(before) :].lstrip()


def _begins(options: Sequence[str], piece: str) -> bool:
    return bool(piece) and any(o.startswith(piece) or piece.startswith(o) for o in options)
