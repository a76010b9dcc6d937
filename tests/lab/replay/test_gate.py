"""B030: a change of a policy shows here, in hits, bytes read and what was read ahead in vain."""

from itertools import combinations

import numpy as np
import pytest

from colibri.lab.drawing import Drawn, DrawnRows
from colibri.lab.replay.belady import Belady
from colibri.lab.replay.capacity import parse_capacities
from colibri.lab.replay.demands import Demand
from colibri.lab.replay.run import Wanted, replay
from colibri.routing.trace import Call, Header, LayerFacts, TraceFile, encode, encode_header

EXPERTS, K, BYTES, TOKENS = 32, 4, 1000, 300
LAYERS = [LayerFacts(n, EXPERTS, K, BYTES, BYTES) for n in range(3)]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A prompt of 20 rows, then decode; the same whenever it is made."""
    ids, _ = DrawnRows(Drawn(0.9, 0.4), 1, [EXPERTS] * 3, K).rows(0, TOKENS)
    data = encode_header(Header(model="drawn", hidden_size=8, layers=LAYERS))
    for rows in np.split(ids, [20, *range(21, TOKENS)]):
        starts, weights = [0], np.ones((len(rows), K), np.float32)
        data += b"".join(encode(Call(n, starts, rows[:, n], weights)) for n in range(3))
    path = tmp_path_factory.mktemp("trace") / "drawn.trace"
    path.write_bytes(data)
    return TraceFile(path)


def rows(trace, policies, capacity="8", **options):
    capacities = parse_capacities(capacity, LAYERS)
    return replay(trace, Wanted(capacities=capacities, policies=policies, **options)).rows


HITS = {"lru": 2110, "slru": 2146, "lfru": 2298, "s3fifo": 2234, "tglru": 2114}


@pytest.mark.parametrize("policy", HITS)
def test_hits_and_bytes(trace, policy):
    (row,) = rows(trace, [policy])
    asked = row.hits + row.misses
    assert row.hits == HITS[policy]
    assert row.bytes_read == BYTES * (asked - row.hits)


def test_nothing_beats_the_optimum(trace):
    for capacity in ("1", "3", "12"):
        found = {row.policy: row.hits for row in rows(trace, [*HITS, "belady"], capacity)}
        assert max(found.values()) == found["belady"]


def best_by_trying(calls, slots):
    """Most hits of any way to keep at most so many of what was there and what was asked for."""
    states = {frozenset(): 0}
    for union in calls:
        after = {}
        for there, hits in states.items():
            hits += len(there & union)
            options = there | union
            for kept in combinations(options, min(slots, len(options))):
                after[frozenset(kept)] = max(after.get(frozenset(kept), 0), hits)
        states = after
    return max(states.values())


@pytest.mark.parametrize("seed", range(20))
def test_the_optimum_is_what_trying_everything_finds(seed):
    rng = np.random.default_rng(seed)
    calls = [set(rng.integers(0, 6, rng.integers(1, 4)).tolist()) for _ in range(9)]
    optimum = Belady([LayerFacts(0, 6, 1, 1, 1)], "layer")
    for step, union in enumerate(calls):
        optimum.call(Demand(0, sorted(union), np.array(sorted(union)), False, False, step))
    for slots in (1, 2, 3):
        assert optimum.tally({0: slots}).total.hits == best_by_trying(calls, slots)


def test_reads_ahead_are_mostly_used_and_cost_little_else(trace):
    (plain,) = rows(trace, ["lru"])
    (ahead,) = rows(trace, ["lru"], lookahead=0.7)
    read = ahead.reads - ahead.misses
    assert ahead.decode_hit_rate > plain.decode_hit_rate + 0.15
    assert 0.55 < ahead.guesses_useful / read < 0.85
    assert ahead.guesses_wasted_bytes < 0.45 * read * BYTES
    assert ahead.bytes_read - ahead.guesses_wasted_bytes < 1.1 * plain.bytes_read


def test_pins_count_after_the_prefix_they_come_from(trace):
    (row,) = rows(trace, ["lru"], pin="2", pin_from=0.5)
    assert row.pinned == 6
    calls = 3 * (TOKENS - 19)
    assert row.hits + row.misses == K * (calls - calls // 2)


@pytest.mark.parametrize(("zipf", "persistence"), [(0, 0), (0.8, 0.3), (1.2, 0.9)])
def test_auto_is_near_the_best_policy_and_not_below_lru(tmp_path, zipf, persistence):
    """At every ratio of slots to experts a token. A point of hits is within the noise of so few
    draws; docs/cache.md has longer traces, and real ones."""
    ids, _ = DrawnRows(Drawn(zipf, persistence), 5, [EXPERTS] * 3, K).rows(0, TOKENS)
    calls = (
        Call(n, [0], ids[t : t + 1, n], np.ones((1, K))) for t in range(TOKENS) for n in range(3)
    )
    path = tmp_path / "a.trace"
    header = Header(model="drawn", hidden_size=8, layers=LAYERS)
    path.write_bytes(encode_header(header) + b"".join(map(encode, calls)))
    by_ratio = {}
    for row in rows(TraceFile(path), ["auto", *HITS], "0.25x,0.5x,0.75x,1x,1.5x,2x"):
        by_ratio.setdefault(row.ratio, {})[row.policy] = 100 * row.decode_hit_rate
    assert sorted(by_ratio) == [0.25, 0.5, 0.75, 1, 1.5, 2]
    for rates in by_ratio.values():
        auto = rates.pop("auto")
        assert auto > max(rates.values()) - 3
        assert auto > rates["lru"] - 1.5
