"""The atlas: counted from real routing, projected as stated, checked when it is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri import LLM, SamplingParams
from colibri.config import EngineConfig
from colibri.errors import Cancelled, CapacityError, ColibriError, ConfigError, ContainerError
from colibri.experts.usage.file import Subject
from colibri.lab.atlas import affinity, words
from colibri.lab.atlas.build import Build, build
from colibri.lab.atlas.file import NAME, Atlas, find_atlas, read_atlas, write_atlas
from colibri.lab.atlas.topics import Topic, own_prompts, read_topics
from colibri.llm import embedded_model

SHIPPED = embedded_model() / NAME


@pytest.fixture(scope="module")
def llm() -> Any:
    config = EngineConfig(ram="2GB", context=1024, prefix_cache=0, usage="off")
    with LLM.from_config(config) as model:
        yield model


@pytest.fixture(scope="module")
def built(llm: LLM) -> Atlas:
    return build(llm, read_topics(own_prompts()))


def test_the_embedded_models_atlas_is_what_building_gives(built: Atlas, llm: LLM) -> None:
    shipped = read_atlas(SHIPPED, Subject.of_model(llm.container))
    assert built.layers == shipped.layers
    assert [(t.name, t.tokens, t.prompts) for t in built.topics] == [
        (t.name, t.tokens, t.prompts) for t in shipped.topics
    ]
    assert [t.pole for t in built.topics] == [t.pole for t in shipped.topics]
    assert built == shipped


def test_company_and_kept_prefixes_change_nothing(tmp_path: Path, llm: LLM) -> None:
    """Of a model that answers others between the prompts, and knows these from before."""
    topics = [Topic(n, [f"{n} is one thing", f"{n} is another"]) for n in ("a", "b", "c", "d")]
    alone = build(llm, topics)
    settings: dict[str, Any] = {"cache_experts": 8, "lookahead": 2, "usage": str(tmp_path / "u")}
    with LLM(ram="2GB", context=1024, **settings) as other:
        other.generate([topic.prompts[0] for topic in topics])
        learnt = other.usage.peek()[0].tokens
        answer = other.stream("A cat", SamplingParams(max_tokens=900, ignore_eos=True))
        next(answer)
        assert build(other, topics) == alone
        assert other.status().running
        answer.close()
        assert other.usage.peek()[0].tokens <= learnt + 902  # fewer once they have aged


def test_a_build_that_is_cancelled_ends(llm: LLM) -> None:
    topics = [Topic(n, [f"{n} is one thing", f"{n} is another"]) for n in ("a", "b", "c", "d")]
    made = Build(llm, topics)
    made.read_next()
    made.cancel()
    with pytest.raises(Cancelled):
        made.read_next()
    assert made.done == 1


def test_prompts_that_ship() -> None:
    topics = read_topics(own_prompts())
    assert len(topics) >= 8
    assert all(len(topic.prompts) >= 8 for topic in topics)
    assert len({p for topic in topics for p in topic.prompts}) == sum(
        len(t.prompts) for t in topics
    )


def test_counts_are_whole(built: Atlas, llm: LLM) -> None:
    """Every token of a topic names k experts of every layer."""
    assert llm.tokenizer is not None
    for t, (facts, topic) in enumerate(zip(built.topics, read_topics(own_prompts()), strict=True)):
        lengths = [len(llm.tokenizer.encode(p, add_special_tokens=True)) - 1 for p in topic.prompts]
        assert facts.tokens == sum(lengths)
        for layer in built.layers:
            assert sum(row[t] for row in layer.selections) == 4 * facts.tokens


def test_the_embedded_models_experts_have_topics(built: Atlas) -> None:
    """It was trained to: chance would make all shares about alike."""
    selections = np.array([row for layer in built.layers for row in layer.selections])
    tokens = np.array([t.tokens for t in built.topics])
    rows = affinity.shares(selections, tokens)
    special = affinity.specialists(rows)
    assert len(set(rows[special].argmax(axis=1).tolist())) >= 8  # topics that have some
    draws = np.random.default_rng(0).multinomial(selections.sum(axis=1), tokens / tokens.sum())
    by_chance = affinity.shares(draws, tokens)
    assert not affinity.specialists(by_chance).any()
    assert affinity.entropy(rows).mean() < affinity.entropy(by_chance).mean() - 0.05


def test_shares() -> None:
    tokens = np.array([100, 50])
    rows = affinity.shares(np.array([[10, 5], [0, 0], [100, 0], [0, 1]]), tokens)
    assert rows.sum(axis=1) == pytest.approx(1)
    assert rows[0] == pytest.approx([0.5, 0.5])  # as often, for its tokens
    assert rows[1] == pytest.approx([0.5, 0.5])  # nothing known
    assert rows[2, 0] == pytest.approx(77 / 79)  # 100 * 75 / 100, two more on each side
    assert rows[3, 1] == pytest.approx(3.5 / 5.5)  # once says little


def test_entropy() -> None:
    rows = np.array([[0.25] * 4, [1 - 3e-12, 1e-12, 1e-12, 1e-12]])
    assert affinity.entropy(rows) == pytest.approx([1, 0], abs=1e-9)


def test_projection_is_that_of_the_principal_components() -> None:
    rng = np.random.default_rng(7)
    rows = rng.dirichlet(np.ones(9) * 0.3, 300)
    places, poles, variance = affinity.project(rows)
    centred = rows - rows.mean(axis=0)
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    assert variance == pytest.approx(singular[:3] ** 2 / (singular**2).sum())
    expected = centred @ axes[:3].T
    expected *= np.sign((expected * places).sum(axis=0))
    assert places == pytest.approx(expected / np.linalg.norm(expected, axis=1).max(), abs=1e-9)
    assert np.linalg.norm(poles, axis=1) == pytest.approx(np.ones(9))
    # An expert of one topic alone lies in that topic's direction.
    pure = np.vstack([rows, np.eye(9)])
    places, poles, _ = affinity.project(pure)
    assert ((places[-9:] * poles).sum(axis=1) / np.linalg.norm(places[-9:], axis=1)).min() > 0.99


def test_projection_of_what_does_not_differ() -> None:
    places, poles, variance = affinity.project(np.full((5, 4), 0.25))
    assert np.isfinite(places).all()
    assert np.isfinite(poles).all()
    assert np.isfinite(variance).all()


def test_the_sign_of_an_axis_is_fixed() -> None:
    rows = np.random.default_rng(3).dirichlet(np.ones(6), 100)
    places, poles, _ = affinity.project(rows)
    again, turned, _ = affinity.project(rows[::-1].copy())
    assert again[::-1] == pytest.approx(places, abs=1e-9)
    assert turned == pytest.approx(poles, abs=1e-9)


def test_strongest_tokens() -> None:
    ids = np.array([[0, 1]] * 4 + [[2, 1]] * 4, np.int32)
    tokens = np.array([7, 7, 7, 9, 8, 8, 8, 9])
    found = words.strongest_tokens(ids, tokens, 4)
    assert found == [[7], [], [8], []]  # 1 gets all alike; 9 comes but once to 0 and to 2


def test_neighbours() -> None:
    ids = np.array([[0, 1]] * 5 + [[2, 3]] * 5 + [[0, 3]], np.int32)
    assert words.neighbours(ids, 5) == [[1], [0], [3], [2], []]


def damaged(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> Path:
    document = json.loads(SHIPPED.read_text())
    change(document)
    path = tmp_path / NAME
    path.write_text(json.dumps(document))
    return path


def _layer(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["layers"][1][field] = value

    return change


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (lambda d: d.update(version=2), ConfigError, "an atlas of version 2"),
        (lambda d: d.update(format="x"), ContainerError, "no atlas of coli"),
        (lambda d: d.pop("topics"), ContainerError, "no atlas of coli"),
        (lambda d: d.update(more=1), ContainerError, "no atlas of coli"),
        (lambda d: d.update(topics=d["topics"][:3]), ContainerError, "3 topics"),
        (lambda d: d["topics"].pop(), ContainerError, "selections that cannot be"),
        (lambda d: d.update(layers=[]), ContainerError, "not in order"),
        (lambda d: d["layers"].reverse(), ContainerError, "not in order"),
        (lambda d: d.update(smoothing=0), ContainerError, "numbers"),
        (lambda d: d.update(variance=[1.0]), ContainerError, "numbers"),
        (lambda d: d["topics"][0].update(tokens=0), ContainerError, "without tokens"),
        (lambda d: d["topics"][0].update(pole=[2, 0, 0]), ContainerError, "lies nowhere"),
        (_layer("places", [[0, 0, 0]]), ContainerError, "layer 2: 1 entry of 32"),
        (_layer("places", [[0, 0]] * 32), ContainerError, "layer 2: an expert lies nowhere"),
        (_layer("places", [[9, 0, 0]] * 32), ContainerError, "layer 2: an expert lies nowhere"),
        (_layer("selections", [[-1] * 10] * 32), ContainerError, "layer 2: selections"),
        (_layer("selections", [[10**9] * 10] * 32), ContainerError, "layer 2: selections"),
        (_layer("tokens", [["a"] * 6] * 32), ContainerError, "layer 2: tokens"),
        (_layer("tokens", [["a" * 65]] * 32), ContainerError, "layer 2: tokens"),
        (_layer("neighbours", [[32]] * 32), ContainerError, "layer 2: neighbours"),
        (_layer("neighbours", [[1] * 5] * 32), ContainerError, "layer 2: neighbours"),
    ],
)
def test_damaged_files_are_refused(
    change: Any, kind: type[ColibriError], says: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=says) as caught:
        read_atlas(damaged(change, tmp_path))
    assert NAME in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"format": "colibri-atlas"}'])
def test_what_is_no_json_object_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(data)
    with pytest.raises(ColibriError, match=NAME):
        read_atlas(path)


def test_another_models_atlas_is_refused(tmp_path: Path, llm: LLM) -> None:
    path = damaged(lambda d: d.update(fingerprint="0" * 16, model="other"), tmp_path)
    with pytest.raises(ConfigError, match="the atlas of 'other'"):
        read_atlas(path, Subject.of_model(llm.container))


def test_written_and_read(built: Atlas, tmp_path: Path) -> None:
    write_atlas(tmp_path / NAME, built)
    assert read_atlas(tmp_path / NAME) == built


def test_the_users_own_atlas_comes_first(tmp_path: Path, built: Atlas, llm: LLM) -> None:
    subject = Subject.of_model(llm.container)
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    assert find_atlas(embedded_model(), subject, environ) == SHIPPED
    own = tmp_path / "colibri" / "atlas" / f"{subject.fingerprint}.{NAME}"
    own.parent.mkdir(parents=True)
    write_atlas(own, built)
    assert find_atlas(embedded_model(), subject, environ) == own
    assert find_atlas(tmp_path, subject, {}) is None


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"topics": []}, "0 topics"),
        ({"topics": [{"name": "a", "prompts": ["x", "y"]}] * 4}, "the same name"),
        ({"topics": [{"name": n, "prompts": ["x"]} for n in "abcd"]}, "1 prompt; give 2"),
        ({"topics": [{"name": n, "prompts": ["x", " "]} for n in "abcd"]}, "none of them empty"),
        ({"topics": [{"name": n, "prompts": ["x", "y"]} for n in ("", "b", "c", "d")]}, "no name"),
        ({"topics": [{"name": n * 41, "prompts": ["x", "y"]} for n in "abcd"]}, "no name"),
        ({"version": 2, "topics": []}, "version 2"),
        ({"topic": []}, "prompts are"),
        ({"topics": [{"name": 5, "prompts": []}]}, "prompts are"),
    ],
)
def test_prompts_that_are_none_are_refused(document: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=says):
        read_topics(path)


def test_a_context_too_short_for_a_prompt_is_refused_before_the_work() -> None:
    topics = [Topic(name, ["A", "B is " + "long " * 20]) for name in "abcd"]
    with LLM(ram="2GB", context=16) as short:
        with pytest.raises(CapacityError, match=r"leaves room for 15: raise --context to \d\d"):
            Build(short, topics)
        assert short.stats().prefill_tokens == 0


def test_topics_of_one_token_each_are_refused(llm: LLM) -> None:
    topics = [Topic(name, ["A", "B"]) for name in "abcd"]
    with pytest.raises(ConfigError, match="one token each"):
        build(llm, topics)
