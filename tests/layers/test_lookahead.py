"""What is hinted, in which order and how far, with an executor that only takes notes."""

from types import SimpleNamespace

import numpy as np
import pytest

from colibri.experts.base import Guess
from colibri.layers.confidence import LEAST_GUESSES, Ranks, Votes
from colibri.layers.lookahead import Lookahead, Target
from colibri.layers.trial import WATCH_STEPS


class Notes:
    def __init__(self, complete=(), wanted=()):
        self.done, self.wanted, self.hints, self.expired = set(complete), wanted, [], 0

    def complete(self, layer):
        return layer in self.done

    def hint(self, layer, expert_ids, read, keep=()):
        self.kept = list(keep)
        self.hints.append((layer, list(expert_ids), read))
        absent = {e: i for i, e in enumerate(expert_ids)}
        return Guess(absent, len(self.wanted), frozenset(absent.keys() & self.wanted))

    def expire(self):
        self.expired += 1


class Says:
    """A layer whose router answers the state itself, as ids."""

    def __init__(self, layer):
        self.layer, self.router, self.seen = layer, self, []

    def gate(self, state):
        self.seen.append(state)
        return state

    def guess(self, logits):
        if not np.isfinite(logits).all():
            raise ValueError("a logit is not finite")
        return logits.astype(np.int32)


def targets(*layers):
    return [Target(lambda x: x, Says(layer)) for layer in layers]


def make(notes, depth, **options):
    """For a model whose layers 3, 4, 5 and 6 have experts; what follows 3."""
    later = targets(4, 5, 6)
    return Lookahead(notes, {3: later}, depth, **options), later


def take_step(ahead, x, shared=None, sequences=1, then=lambda: None):
    """A step in which layer 3 comes to its experts."""
    step = SimpleNamespace(
        token_ids=range(len(x)), sequences=range(sequences), guess=None, shares=None
    )
    with ahead.step(step, x):
        if step.guess is not None:
            step.guess(3, shared)
        then()


def ids(*rows):
    return np.array(rows, np.float32)


def test_every_layer_within_the_depth_gets_a_hint_best_first():
    notes = Notes()
    ahead, _ = make(notes, 2)
    take_step(ahead, ids([7, 3, 9]))
    assert notes.hints == [(4, [7, 3, 9], 3), (5, [7, 3, 9], 3)]
    assert notes.expired == 1


def test_the_state_has_the_shared_expert_in_it():
    notes = Notes()
    ahead, _ = make(notes, 1)
    take_step(ahead, ids([7, 3, 9]), ids([1, 0, 1]))
    assert notes.hints == [(4, [8, 3, 10], 3)]


def test_nothing_is_computed_for_layers_that_are_complete():
    notes = Notes(complete=[4])
    ahead, later = make(notes, 1)
    take_step(ahead, ids([7, 3]))
    assert not later[0].moe.seen
    assert not notes.hints


def test_experts_of_several_sequences_go_by_their_best_rank():
    notes = Notes()
    ahead, _ = make(notes, 1)
    take_step(ahead, ids([7, 3], [5, 7], [7, 1]), sequences=3)
    assert notes.hints == [(4, [7, 5, 3, 1], 4)]


def test_a_prompt_reads_what_enough_rows_vote_for_in_ascending_order():
    notes = Notes()
    ahead, _ = make(notes, 3)
    rows = [[9, 2]] * 15 + [[9, 1]] * 16
    take_step(ahead, ids(*rows))
    assert ahead.votes.needed == 16
    assert notes.hints == [(4, [1, 9], 2)]
    assert notes.kept == [1, 2, 9]


def test_a_long_prompt_is_sampled():
    notes = Notes()
    ahead, later = make(notes, 1)
    rows = np.zeros((2000, 1), np.float32)
    take_step(ahead, rows, rows)
    assert len(later[0].moe.seen[0]) == 500


def test_values_that_are_not_finite_are_no_guess():
    notes = Notes()
    ahead, _ = make(notes, 1)
    take_step(ahead, ids([np.inf, 3]))
    assert not notes.hints


def test_an_error_in_a_step_takes_the_hints_back():
    notes = Notes()
    ahead, _ = make(notes, 1)

    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take_step(ahead, ids([7, 3]), then=fail)
    assert notes.expired == 1


def test_auto_watches_first_and_rests_when_nothing_is_missing():
    notes = Notes()
    ahead, _ = make(notes, None)
    for _ in range(WATCH_STEPS):
        take_step(ahead, ids([7, 3]))
    assert notes.hints == [(4, [7, 3], 0)] * WATCH_STEPS
    take_step(ahead, ids([7, 3]))
    assert len(notes.hints) == WATCH_STEPS


def test_auto_reads_when_the_clock_says_that_it_pays():
    """A step takes 1 without and 0.5 with reads."""
    now = [0.0]
    notes = Notes(wanted={7, 3})
    ahead, _ = make(notes, None, clock=lambda: now[0])

    def pass_time():
        now[0] += 0.5 if ahead.trial.way == "read" else 1.0

    for _ in range(200):
        take_step(ahead, ids([7, 3]), then=pass_time)
    assert ahead.trial.pays
    assert notes.hints[-1] == (4, [7, 3], 2)


def test_ranks_that_are_mostly_wrong_are_not_read():
    ranks = Ranks(3)
    for i in range(LEAST_GUESSES):
        assert ranks.trusted == 3
        ranks.learn([0, 1, 2], Guess({5: 0, 6: 1, 7: 2}, 3, frozenset({5, 6} if i % 4 else {5})))
    assert ranks.trusted == 2
    for _ in range(300):
        ranks.learn([0, 1, 2], Guess({5: 0, 6: 1, 7: 2}, 3, frozenset({5, 7})))
    assert ranks.trusted == 1
    for _ in range(900):
        ranks.learn([0, 1, 2], Guess({5: 0, 6: 1, 7: 2}, 3, frozenset({5, 6, 7})))
    assert ranks.trusted == 3


def test_more_votes_are_needed_while_certain_experts_prove_wrong():
    votes, right = Votes(), frozenset(range(31))
    votes.learn(Guess(dict.fromkeys(range(31)), 31, right))
    assert votes.needed == 16
    votes.learn(Guess({40: 0}, 31))
    assert votes.needed == 32
    for _ in range(9):
        votes.learn(Guess({1: 0, 2: 1}, 0))
    assert votes.needed == 256
    for needed in (128, 64, 32, 16, 16):
        votes.begin()
        assert votes.needed == needed
    for needed in (8, 8):
        votes.learn(Guess(dict.fromkeys(range(32)), 32, frozenset(range(32))))
        assert votes.needed == needed
