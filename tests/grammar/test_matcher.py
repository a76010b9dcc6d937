"""Stages, the end of an answer, what is forced, and taking tokens back."""

import numpy as np
import pytest
from grammar_kit import END, ROWS, favour, grammars, matcher, text_of, tokenizer, write

from colibri.errors import GrammarError
from colibri.grammar.answers import AnswerForm, CallRules, Thinking
from colibri.grammar.grammars import Grammars
from colibri.grammar.matcher import Matcher
from colibri.grammar.structure import Structure
from colibri.sampling import Sampler, SamplingParams

OBJECT = Structure.json_schema(
    {
        "type": "object",
        "properties": {"temperature": {"type": "integer"}},
        "required": ["temperature"],
        "additionalProperties": False,
    }
)
DIGITS = Structure.regex("[0-9]{2}")


def ids(text: str) -> list[int]:
    return tokenizer().encode(text, add_special_tokens=False)


def accept(at: Matcher, text: str) -> None:
    for token in ids(text):
        at.accept(token)


def allowed(at: Matcher) -> list[bool]:
    found = at.allowed(ROWS)
    return [True] * ROWS if found is None else found.tolist()


def test_rows_beyond_the_vocabulary_are_never_allowed() -> None:
    for structure in (DIGITS, Structure.regex("(?s:.*)")):
        assert not any(allowed(matcher(structure))[tokenizer().vocab_size :])


def test_special_tokens_are_no_text() -> None:
    found = allowed(matcher(Structure.regex("(?s:.*)")))
    assert [i for i in tokenizer().special_ids if found[i]] == [END]


def test_a_model_with_fewer_rows_than_the_vocabulary() -> None:
    scores = np.zeros(300, np.float32)
    assert np.isfinite(matcher(DIGITS).mask(scores)).sum() > 9


def test_scores_are_left_as_they_are() -> None:
    scores = np.random.default_rng(1).normal(size=ROWS).astype(np.float32)
    before = scores.copy()
    masked = matcher(DIGITS).mask(scores)
    assert np.array_equal(scores, before)
    keep = np.isfinite(masked)
    assert 0 < keep.sum() < ROWS
    assert np.array_equal(masked[keep], scores[keep])


def test_what_nothing_can_follow_is_finished() -> None:
    at = matcher(DIGITS)
    accept(at, "1")
    assert not at.finished
    accept(at, "2")
    assert at.finished
    assert [i for i, may in enumerate(allowed(at)) if may] == [END]


def test_a_token_that_does_not_fit_changes_nothing() -> None:
    at = matcher(DIGITS)
    accept(at, "1")
    before = allowed(at)
    with pytest.raises(GrammarError, match="does not fit"):
        accept(at, "x")
    assert allowed(at) == before
    accept(at, "2")
    assert at.finished


def test_ignore_eos_leaves_no_way_out_before_the_structure_is_whole() -> None:
    at = matcher(Structure.regex("a{1,3}"), ignore_eos=True)
    for _ in range(3):
        assert not allowed(at)[END]
        accept(at, "a")
    assert at.finished


def test_dead_ends_are_errors() -> None:
    at = matcher(Structure.regex("☃"))
    with pytest.raises(GrammarError, match="no token of the model's vocabulary"):
        at.mask(np.zeros(20, np.float32))  # a head without the rows that spell it


def test_forced_tokens_are_accepted_one_by_one() -> None:
    at = matcher(OBJECT)
    forced: list[int] = []
    accept(at, '{"')
    forced = list(at.forced())
    assert text_of(forced).startswith("temperature")
    for token in forced:
        assert allowed(at)[token]
        at.accept(token)
    assert at.forced() == ()


def test_nothing_is_forced_where_there_is_a_choice() -> None:
    assert matcher(Structure.regex("[ab]")).forced() == ()
    assert THINKING_MATCHER().forced() == ()


def test_forced_tokens_stop_before_the_end() -> None:
    at = matcher(Structure.choice(["cat"]))
    tokens = at.forced()
    assert text_of(list(tokens)) == "cat"
    assert END not in tokens


@pytest.mark.parametrize("back", [1, 2, 7])
def test_rollback_is_as_if_it_had_not_been(back: int) -> None:
    form = AnswerForm(OBJECT, thinking=THINKS)
    text = "some thoughts</think>\n"
    steps = [*ids(text), *ids('{"temperature": 25}')]
    at = grammars().matcher(form)
    masks = [allowed(at)]
    for token in steps:
        at.accept(token)
        masks.append(allowed(at))
    assert at.finished
    for end in range(len(steps), back - 1, -back):
        at.rollback(back)
        assert allowed(at) == masks[end - back]
        for token in steps[end - back : end]:
            at.accept(token)
        assert allowed(at) == masks[end]
        at.rollback(back)
    with pytest.raises(GrammarError, match="to take back"):
        at.rollback(len(steps) + 1)


def test_the_end_can_be_taken_back() -> None:
    at = matcher(Structure.regex("a+"))
    accept(at, "a")
    at.accept(END)
    assert at.finished
    at.rollback(1)
    assert not at.finished
    accept(at, "a")


def test_answers_do_not_see_each_other() -> None:
    one, two = matcher(DIGITS), matcher(DIGITS)
    before = allowed(two)
    accept(one, "12")
    assert allowed(two) == before


THINKS = Thinking(True, Structure("tools", "start: <[10]>"), "<think>", "</think>")
MAY_THINK = Thinking(None, Structure("tools", "start: <[10]>"), "<think>", "</think>")
THINK, THOUGHT = 10, 11


def THINKING_MATCHER() -> Matcher:
    return grammars().matcher(AnswerForm(DIGITS, thinking=THINKS))


def test_reasoning_is_free_and_the_answer_is_not() -> None:
    at = THINKING_MATCHER()
    accept(at, 'Anything {"at": all, 1')
    assert not allowed(at)[END]
    at.accept(THOUGHT)
    accept(at, "\n\n12")
    assert at.finished


def test_reasoning_that_never_ends_is_no_answer() -> None:
    found, whole = write(THINKING_MATCHER(), 1, limit=40, bias={THOUGHT: -100.0})
    assert len(found) == 40
    assert not whole


def test_a_model_may_begin_reasoning_itself_or_not() -> None:
    at = grammars().matcher(AnswerForm(DIGITS, thinking=MAY_THINK))
    assert allowed(at)[THINK]
    at.accept(THINK)
    accept(at, "hm")
    at.accept(THOUGHT)
    assert not allowed(at)[THINK]
    accept(at, "12")
    assert at.finished
    at = grammars().matcher(AnswerForm(DIGITS, thinking=MAY_THINK))
    accept(at, "12")
    assert at.finished


@pytest.mark.parametrize(
    "pieces",
    [
        ["<<<go>", "12"],
        ["<", "<<", "go", ">1", "2"],
        ["x<<go>1", "2"],
        ["<<go>12", "<<g", "o>34"],
        ["<<go>x<<go>", "12"],  # a call that is none is text
        ["<<go>é<<", "go>1", "2"],
    ],
)
def test_a_mark_may_be_cut_anywhere_and_end_within_a_token(pieces: list[str]) -> None:
    own = Grammars(PieceTokenizer(pieces), frozenset([END]))
    calls = CallRules("<<go>", DIGITS, DIGITS, must=False, several=True)
    at = own.matcher(AnswerForm(calls=calls))
    states = []
    for token in range(1, len(pieces) + 1):
        found = at.allowed(ROWS)
        assert found is None or found[token]
        at.accept(token)
        states.append(at.allowed(ROWS) is None)
    assert states[-1]  # back in the text
    assert not all(states) or pieces[0] == "<<go>12"
    at.rollback(len(pieces))
    assert at.allowed(ROWS) is None


class PieceTokenizer:
    """These texts as tokens, then all bytes."""

    special_ids = frozenset([END])

    def __init__(self, pieces: list[str]) -> None:
        self._tokens = [b"", *(p.encode() for p in pieces), *(bytes([b]) for b in range(256))]
        self.vocab_size = len(self._tokens)

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [self.vocab_size - 256 + byte for byte in text.encode()]

    def token_bytes(self, token_id: int, *, first: bool = False) -> bytes:
        return self._tokens[token_id]

    def token_id(self, token: str) -> int | None:
        return None


def call(several: bool = True, must: bool = False) -> CallRules:
    one = Structure.regex("[a-z]{2}!")
    many = Structure.regex("(<call>[a-z]{2}!)+" if several else "<call>[a-z]{2}!")
    return CallRules("<call>", one, many, must, several)


def test_text_is_free_until_a_call_begins() -> None:
    at = grammars().matcher(AnswerForm(calls=call()))
    scores = np.zeros(ROWS, np.float32)
    accept(at, "some text <call")
    assert at.mask(scores) is scores
    accept(at, ">")
    assert not allowed(at)[END]
    accept(at, "ab!")
    assert at.mask(scores) is scores
    accept(at, " and <call>cd!")
    assert not at.finished


def test_without_parallel_calls_the_first_ends_the_answer() -> None:
    at = grammars().matcher(AnswerForm(calls=call(several=False)))
    accept(at, "so: <call>ab!")
    assert at.finished


def test_a_call_that_must_come_comes_at_once() -> None:
    for seed in range(5):
        found, whole = write(
            grammars().matcher(AnswerForm(calls=call(must=True))), seed, bias={END: 9.0}
        )
        assert whole
        assert text_of(found).startswith("<call>")


def test_calls_in_reasoning_are_none() -> None:
    for thinks in (THINKS, MAY_THINK):
        at = grammars().matcher(AnswerForm(calls=call(), thinking=thinks))
        if thinks is MAY_THINK:
            at.accept(THINK)
        accept(at, "perhaps <call>")
        assert at.allowed(ROWS) is None
        at.accept(THOUGHT)
        accept(at, "<call>")
        assert at.allowed(ROWS) is not None


def test_a_structure_or_calls() -> None:
    form = AnswerForm(DIGITS, calls=call())
    for text in ("12", "<call>ab!"):
        at = grammars().matcher(form)
        accept(at, text)
        assert allowed(at)[END]
    bias = favour("<", 2.0)
    begins = [text_of(write(grammars().matcher(form), seed, bias=bias)[0])[0] for seed in range(12)]
    assert "<" in begins
    assert set(begins) & set("0123456789")


def test_grammars_are_kept_and_the_oldest_forgotten() -> None:
    kept = grammars()
    first = kept.compiled(Structure.regex("kept"))
    assert kept.compiled(Structure.regex("kept")) is first
    for number in range(40):
        kept.compiled(Structure.regex(f"other{number}"))
    assert kept.compiled(Structure.regex("kept")) is not first


def test_a_step_that_is_done_again_gives_the_same_token() -> None:
    at = matcher(Structure.regex("[a-z]{8}"))
    sampler = Sampler(SamplingParams(seed=4), [1], at)
    logits = np.random.default_rng(2).normal(size=ROWS).astype(np.float32)
    first = sampler.sample(logits, 1, []).token
    second = sampler.sample(logits, 2, [first]).token
    assert sampler.sample(logits, 2, [first]).token == second
    assert at.tokens == 2
    assert sampler.sample(logits, 1, []).token == first
    assert at.tokens == 1
