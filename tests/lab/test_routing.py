"""The bench's routers draw what they say, the same for a seed and position."""

import numpy as np
import pytest

from colibri.errors import ConfigError
from colibri.lab.drawing import Drawn, guesses, right_by_rank
from colibri.lab.routing import RoutingKit, parse_routing
from colibri.routing.softmax import SoftmaxRouter
from colibri.routing.trace import Call, Header, LayerFacts, encode, encode_header

EXPERTS, K = 16, 4


def ids_of(routing, rows=2000, seed=3, layers=2, chunk=None):
    kit = RoutingKit(routing, seed)
    routers = [kit.make(n, SoftmaxRouter(K, True), EXPERTS) for n in range(layers)]
    kit.prepare(rows)
    chunk = chunk or rows
    parts = [
        [r.route(np.zeros((min(chunk, rows - at), EXPERTS), np.float32))[0] for r in routers]
        for at in range(0, rows, chunk)
    ]
    return np.concatenate([np.stack(p, axis=1) for p in parts])


def counts(ids):
    return np.stack([np.bincount(ids[:, n].reshape(-1), minlength=EXPERTS) for n in (0, 1)])


def kept(ids):
    """The share of a token's experts that the next token has too."""
    same = (ids[1:, :, :, None] == ids[:-1, :, None, :]).any(axis=3)
    return same.mean()


def test_ids_of_a_row_are_distinct():
    ids = np.sort(ids_of(Drawn(1.0, 0.7)), axis=2)
    assert (ids[:, :, 1:] > ids[:, :, :-1]).all()


def test_uniform_takes_every_expert_alike():
    share = counts(ids_of(Drawn())) / (2000 * K)
    assert np.abs(share - 1 / EXPERTS).max() < 0.01
    assert abs(kept(ids_of(Drawn())) - K / EXPERTS) < 0.02


def test_zipf_prefers_few_and_others_in_each_layer():
    by_layer = counts(ids_of(Drawn(zipf=1.2)))
    assert by_layer.max(axis=1).min() > 5 * by_layer.min(axis=1).max()
    assert by_layer[0].argmax() != by_layer[1].argmax()


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_persistence_keeps_experts(p):
    # Those not kept are drawn from all others, so some come back.
    ids = ids_of(Drawn(persistence=p))
    assert p <= kept(ids) + 0.02
    assert kept(ids) < p + (1 - p) * 0.3 + 0.02


def test_a_row_depends_on_seed_and_position_only():
    routing = Drawn(1.0, 0.5)
    whole = ids_of(routing, 300)
    assert (ids_of(routing, 300, chunk=7) == whole).all()
    assert (ids_of(routing, 300, seed=4) != whole).any()


def test_rows_beyond_those_prepared_follow_the_same_draw():
    kit = RoutingKit(Drawn(0, 0.5), 3)
    router = kit.make(0, SoftmaxRouter(K, True), EXPERTS)
    first = np.concatenate(
        [router.route(np.zeros((1, EXPERTS), np.float32))[0] for _ in range(400)]
    )
    kit.rewind()
    again, _ = router.route(np.zeros((400, EXPERTS), np.float32))
    assert (first == again).all()


def test_a_guess_is_the_better_the_higher_its_rank():
    measured = [0.955, 0.852, 0.657, 0.442]  # of the embedded model, whose mean is 0.727
    assert np.abs(right_by_rank(0.727, 4) - measured).max() < 0.02
    ids = ids_of(Drawn(), 4000)
    drawn = guesses(ids, [10_000] * 2, 0.727, 3, 0)  # so many that none is right by chance
    assert np.abs((drawn == ids).mean(axis=(0, 1)) - right_by_rank(0.727, K)).max() < 0.02


@pytest.mark.parametrize("recall", [0.0, 0.1, 0.5, 0.75, 1.0])
def test_the_ranks_have_the_stated_mean(recall):
    right = right_by_rank(recall, 64)
    assert abs(right.mean() - recall) < 0.02
    assert (right >= 0).all()
    assert (np.diff(right) <= 0).all()


@pytest.mark.parametrize("recall", [0.0, 0.7, 1.0])
def test_guesses_are_as_good_as_they_say(recall):
    kit = RoutingKit(Drawn(recall=recall), 3)
    router = kit.make(0, SoftmaxRouter(K, True), EXPERTS)
    logits = np.zeros((2000, EXPERTS), np.float32)
    guessed = router.guess(logits)
    ids, _ = router.route(logits)
    # What is not meant to be right is any expert, so sometimes one of the k.
    found = (ids[:, :, None] == guessed[:, None, :]).any(axis=2).mean()
    assert recall - 0.02 <= found <= recall + (1 - recall) * 0.3 + 0.02


def test_layers_may_be_made_in_any_order():
    def ids(order):
        kit = RoutingKit(Drawn(1.0), 3)
        routers = {n: kit.make(n, SoftmaxRouter(K, True), EXPERTS) for n in order}
        return [routers[n].route(np.zeros((9, EXPERTS), np.float32))[0] for n in (0, 1)]

    assert all((a == b).all() for a, b in zip(ids((0, 1)), ids((1, 0)), strict=True))


def write_trace(path, ids, weights, experts=EXPERTS):
    """A step a token: ids, weights [tokens, layers, k]."""
    layers = [LayerFacts(n, experts, ids.shape[2]) for n in range(ids.shape[1])]
    data = encode_header(Header(model="m", hidden_size=8, layers=layers))
    for token, weight in zip(ids, weights, strict=True):
        for n in range(ids.shape[1]):
            data += encode(Call(n, [0], token[n : n + 1], weight[n : n + 1]))
    path.write_bytes(data)


def test_a_trace_is_followed_with_its_weights_and_starts_over(tmp_path):
    path = tmp_path / "a.trace"
    told = np.arange(2 * 2 * K, dtype=np.int32).reshape(2, 2, K)
    shares = np.array([[[0.4, 0.3, 0.2, 0.1]] * 2, [[0.7, 0.1, 0.1, 0.1]] * 2], np.float32)
    write_trace(path, told, shares)
    routing = parse_routing(f"trace:{path}")
    ids = ids_of(routing, 5)
    assert (ids == told[[0, 1, 0, 1, 0]]).all()
    kit = RoutingKit(routing, 0)
    routers = [kit.make(n, SoftmaxRouter(K, True), EXPERTS) for n in range(2)]
    _, weights = routers[0].route(np.zeros((2, EXPERTS), np.float32))
    assert np.allclose(weights, shares[:, 0])


def test_a_last_step_that_is_not_whole_is_left_out(tmp_path):
    path = tmp_path / "a.trace"
    told = np.arange(2 * 2 * K, dtype=np.int32).reshape(2, 2, K)
    write_trace(path, told, np.ones(told.shape, np.float32))
    path.write_bytes(path.read_bytes()[:-1])
    assert (ids_of(parse_routing(f"trace:{path}"), 2) == told[0]).all()


@pytest.mark.parametrize(
    ("shape", "experts", "word"),
    [((1, 2, 2), EXPERTS, "experts a token"), ((1, 2, K), 99, "does not have")],
)
def test_a_trace_of_another_model_is_refused(tmp_path, shape, experts, word):
    ids = np.arange(experts - np.prod(shape), experts, dtype=np.int32).reshape(shape)
    write_trace(tmp_path / "t", ids, np.ones(shape, np.float32), experts)
    with pytest.raises(ConfigError, match=word):
        ids_of(parse_routing(f"trace:{tmp_path / 't'}"), 2)


def test_a_trace_without_a_step_is_refused(tmp_path):
    write_trace(tmp_path / "t", np.zeros((0, 2, K), np.int32), np.zeros((0, 2, K), np.float32))
    with pytest.raises(ConfigError, match="an empty trace"):
        parse_routing(f"trace:{tmp_path / 't'}")


@pytest.mark.parametrize("text", ["", "zipf", "zipf:x", "persist:2", "zipf:1,zipf:2", "other:1"])
def test_an_unknown_routing_is_refused(text):
    with pytest.raises(ConfigError, match="--routing"):
        parse_routing(text)


def test_forms():
    assert parse_routing("model") is None
    assert parse_routing("zipf:1.1,persist:0.6") == Drawn(1.1, 0.6)
