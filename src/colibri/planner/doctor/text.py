"""Checks of what turns text into tokens and back."""

from __future__ import annotations

from collections.abc import Sequence

from colibri.planner.doctor.case import Case
from colibri.planner.doctor.finding import Found, failed, passed, warned
from colibri.sampling import SamplingParams
from colibri.text.chat import ChatFormat, ChatRequest
from colibri.text.eos import eos_ids, named_in
from colibri.words import coli, count

_SAMPLE = "Grüße, 世界!\n\tif x < 10: return [x] * 2"
_CONVERSATION = (
    {"role": "user", "content": "Which colour is the sky?"},
    {"role": "assistant", "content": "Blue."},
    {"role": "user", "content": "And at night?"},
)


def tokenizer(case: Case) -> Sequence[Found]:
    """It loads, gives text back as it was, and has no ids beyond the model's vocabulary."""
    where = case.model.path / "tokenizer.json"
    found = case.model.tokenizer
    if found is None:
        run = coli("run", case.config.model)
        fix = f"add the file from where the model came from; until then only `{run} --ids` works"
        return [warned("there is no tokenizer.json", case.model.path, fix=fix)]
    vocabulary = case.model.parsed.vocab_size
    ids = found.encode(_SAMPLE, add_special_tokens=False)
    if ids and max(ids) >= vocabulary:
        what = f"it gives the id {max(ids)}, the model knows 0..{vocabulary - 1}"
        return [failed(what, where, fix="take tokenizer.json and config.json from one model")]
    if found.decode(ids) != _SAMPLE:
        fix = "harmless if this tokenizer normalises text; else take the file from the source again"
        return [warned("a sample of text does not come back as it was", where, fix=fix)]
    return [
        passed(f"{count(found.vocab_size, 'token')}; a sample of text comes back as it was", where)
    ]


def template(case: Case) -> Sequence[Found]:
    """The chat template renders a conversation, and the last words of it are in the prompt."""
    _ = case.model.names  # where there is no model, that is the news
    found = ChatFormat.load(case.model.path, str(case.model.config.get("model_type")))
    if found is None:
        run = coli("run", case.config.model)
        fix = f"base models have none: use `{run}`; else add chat_template.jinja"
        return [warned("there is no chat template, so `coli chat` will not run", fix=fix)]
    text = found.render(_CONVERSATION, ChatRequest())
    if _CONVERSATION[-1]["content"] not in text:
        what = "it leaves out what the user said last"
        return [failed(what, case.model.path, fix="take the template from the source again")]
    if found.built_in:
        fix = "take chat_template.jinja from the model's source, if it has one"
        return [warned("there is no chat template; the family's is used, built in here", fix=fix)]
    return [passed(f"renders a conversation of three turns ({len(text)} characters)")]


def generation(case: Case) -> Sequence[Found]:
    """The model's own sampling parameters are valid, and something ends an answer."""
    model = case.model
    SamplingParams.from_generation_config(model.generation_config)
    ends = eos_ids(model.config, model.generation_config, model.tokenizer)
    beyond = sorted(i for i in ends if i >= model.parsed.vocab_size)
    where = model.path / "generation_config.json"
    if not ends:
        fix = "name eos_token_id in generation_config.json; until then --max-tokens ends answers"
        return [warned("no token is named that ends an answer", where, fix=fix)]
    if len(beyond) == len(ends):
        what = f"eos_token_id {beyond[0]} is not in the model's vocabulary: answers would not end"
        where = model.path / named_in(beyond[0], model.config, model.generation_config)
        return [failed(what, where, fix="take the file from the model's source again")]
    return [passed(f"valid; {count(len(ends), 'token')} to end an answer")]
