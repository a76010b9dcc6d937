"""From what a caller asks, text or token ids, to a request and the text of its answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colibri.answer import Answer
from colibri.engine.ids import check_ids, whole_numbers
from colibri.engine.request import Request
from colibri.errors import CapacityError, ColibriError, ConfigError, TokenizerError
from colibri.grammar import Matcher
from colibri.grammar.answers import FREE, AnswerForm
from colibri.grammar.grammars import Grammars
from colibri.llm.files import only_chats
from colibri.llm.leadin import PARAMS as LEAD_IN_PARAMS
from colibri.llm.leadin import LeadIn
from colibri.llm.scores import Normalize, Scoring, check_options, joint_branches, places_of
from colibri.sampling import SamplingParams
from colibri.text.assemble import StopWatch, TextAssembler
from colibri.text.notes import SaidOnce
from colibri.text.parts import AnswerParser
from colibri.text.tokenizer import Tokenizer
from colibri.words import count

if TYPE_CHECKING:  # the rest of it is imported on use: jinja2 takes its time
    from colibri.text.chat import ChatFormat, ChatOptions, ChatRequest
    from colibri.text.history import History, Message

Prompt = str | Sequence[int]

# What is said of a prompt; a logger of its own, so that `coli run -q` can be without.
prompts = logging.getLogger("colibri.prompts")

_ONLY_CHATS = (
    "this model was made for chat and cannot continue plain text sensibly: use --chat (in "
    "Python: chat())"
)


class Asker:
    """For one model. tokenizer: None where it has none. marks: whether the engine wants to be told
    where prompts part from one another.
    """

    def __init__(
        self,
        path: Path,
        model_type: str,
        tokenizer: Tokenizer | None,
        eos_ids: frozenset[int],
        default_params: SamplingParams,
        *,
        vocab_size: int,
        context: int,
        marks: bool,
    ) -> None:
        self.tokenizer = tokenizer
        self._path, self._model_type = path, model_type
        self._eos_ids = eos_ids
        self._default_params = default_params
        self._vocab_size = vocab_size
        self._room = context - 1  # for a prompt
        self._marks = marks
        self._said_it_chats = False
        self._said = SaidOnce()

    @cached_property
    def chat_format(self) -> ChatFormat | None:
        """A damaged template is an error here, not for whoever needs none."""
        from colibri.text.chat import ChatFormat

        return ChatFormat.load(self._path, self._model_type)

    def raw(self, prompt: Prompt, params: SamplingParams | None) -> Answer:
        if isinstance(prompt, str):
            ids = self.encode(prompt, add_special_tokens=True)
            self._warn_if_it_only_chats(prompt)
        else:
            ids = whole_numbers(prompt)
        request = self._request(ids, params)
        if self.tokenizer is None:
            return Answer(request)
        return self._answer(request, self.tokenizer, continues=True)

    def _warn_if_it_only_chats(self, prompt: str) -> None:
        """Once, and not of a conversation written out, with the marks of its turns."""
        if self._said_it_chats or not only_chats(self._path):
            return
        marks = self.need_tokenizer().special_ids
        if marks.isdisjoint(self.encode(prompt, add_special_tokens=False)):
            self._said_it_chats = True
            prompts.warning(_ONLY_CHATS)

    def conversation(
        self, messages: Sequence[Message], params: SamplingParams | None, options: ChatOptions
    ) -> Answer:
        chat, tokenizer = self.need_chat(), self.need_tokenizer()
        history = chat.history(messages)
        prompt, asked = self.rendered(history, options)
        rules = chat.call_rules(tokenizer, asked)
        form = AnswerForm(calls=rules.rules, thinking=chat.thinking(prompt, tokenizer))
        request = self._request(self.encode(prompt, add_special_tokens=False), params, form)
        if self._marks:
            request.marks = self._boundaries(history, asked, prompt)
        notes = (*chat.notes(asked, history), *rules.notes)
        self._said.warn(notes)
        parser, shown = chat.parser(prompt, asked), chat.shown(tokenizer, asked)
        return self._answer(request, tokenizer, False, parser, shown, notes)

    def _answer(
        self,
        request: Request,
        tokenizer: Tokenizer,
        continues: bool,
        parser: AnswerParser | None = None,
        shown: frozenset[int] = frozenset(),
        notes: tuple[str, ...] = (),
    ) -> Answer:
        stop = request.params.stop
        if stop:
            request.watch = StopWatch(tokenizer, stop, continues, shown)
        return Answer(request, TextAssembler(tokenizer, stop, continues, parser, shown), notes)

    def question(
        self,
        context: str,
        options: Sequence[str],
        normalize: Normalize,
        *,
        rendered: bool,
        lead_in: LeadIn | None = None,
    ) -> Scoring:
        """rendered: the context is a chat template's, which has its special tokens itself. lead_in:
        of its places the one counts where the options are likeliest."""
        check_options(options, normalize)
        encode = partial(self.encode, add_special_tokens=False)
        lead = [] if rendered else self._lead(context)
        prompt, branches, begins = joint_branches(
            encode, lead, context, options, places_of(lead_in)
        )
        longest = max(len(branch) for branch in branches)
        room = self._room + 1 - longest
        if room < 1:
            at = branches.index(max(branches, key=len)) % len(options)
            raise ConfigError(
                f"options[{at}] has {count(longest, 'token')}, and the context leaves room for "
                f"{self._room}: shorten it, or raise --context",
                f"options[{at}]",
            )
        self.check_ids(prompt, room)
        request = Request(prompt, SamplingParams(temperature=0.0), branches=branches)
        return Scoring(request, options, normalize, begins, lead_in)

    def lead_in(self, prompt: str, options: Sequence[str]) -> LeadIn:
        """The beginning of the answer to a chat template's prompt, and where it names an option."""
        check_options(options)
        request = self._request(self.encode(prompt, add_special_tokens=False), LEAD_IN_PARAMS)
        return LeadIn(request, self.need_tokenizer().decode, options, prompt)

    def _lead(self, context: str) -> list[int]:
        """The special tokens that a raw prompt begins with."""
        ids, bare = self.encode(context, True), self.encode(context, False)
        starts = range(len(ids) - len(bare) + 1)
        return next((ids[:n] for n in starts if ids[n : n + len(bare)] == bare), [])

    def rendered(
        self, messages: Sequence[Message], options: ChatOptions
    ) -> tuple[str, ChatRequest]:
        """The prompt of a conversation, up to where the answer begins."""
        from colibri.text.chat import ChatRequest

        asked = ChatRequest.of(options)
        return self.need_chat().render(messages, asked), asked

    def asked(self, messages: Sequence[Message], options: ChatOptions) -> str:
        """The prompt of a closed question: with reasoning off the answer comes at once, also from a
        model that otherwise always reasons."""
        prompt, asked = self.rendered(messages, options)
        return prompt if asked.reasons else self.need_chat().closed(prompt)

    def need_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise TokenizerError(
                "this model has no tokenizer.json, so it neither reads nor writes text: give token "
                "ids, or add the file"
            )
        return self.tokenizer

    def need_chat(self) -> ChatFormat:
        self.need_tokenizer()
        if self.chat_format is None:
            raise TokenizerError(
                "this model has no chat template (chat_template.jinja or tokenizer_config.json): "
                "give it a prompt of your own, through generate() or, of a server, /v1/completions"
            )
        return self.chat_format

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        tokenizer, room = self.need_tokenizer(), self._room
        if tokenizer.exceeds(text, room):
            raise CapacityError(
                f"the prompt, of {len(text)} characters, has far more than {room} tokens, for "
                "which the context leaves room: shorten it, or raise --context"
            )
        return tokenizer.encode(text, add_special_tokens)

    def _request(
        self, ids: Sequence[int], params: SamplingParams | None, form: AnswerForm = FREE
    ) -> Request:
        params = self._default_params if params is None else params
        if not isinstance(params, SamplingParams):
            raise ConfigError(f"params: {type(params).__name__} is no SamplingParams")
        if params.stop:
            self.need_tokenizer()
        # Without an answer the prompt may take the last position too.
        self.check_ids(ids, self._room + (params.max_tokens == 0))
        return Request(ids, params, self._eos_ids, matcher=self._matcher(params, form))

    def _matcher(self, params: SamplingParams, form: AnswerForm) -> Matcher | None:
        """Compiled here, on the caller's thread."""
        form = replace(form, structure=params.structure)
        if form.structure is None and form.calls is None:
            return None
        return self._grammars.matcher(form, ignore_eos=params.ignore_eos)

    @cached_property
    def _grammars(self) -> Grammars:
        return Grammars(self.need_tokenizer(), self._eos_ids)

    def check_ids(self, ids: Sequence[int], room: int | None = None) -> None:
        check_ids(ids, self._vocab_size, self._room if room is None else room)

    def _boundaries(self, history: History, asked: ChatRequest, prompt: str) -> tuple[int, ...]:
        """Where the next turn, or another last message, parts from this prompt, in tokens."""
        chat, tokenizer = self.need_chat(), self.need_tokenizer()
        variables: dict[str, Any] = {**asked.variables, "add_generation_prompt": False}
        bare = replace(asked, variables=variables)
        found = set()
        for some in (history, history.without_last()):
            try:
                text = chat.render(some, bare)
            except ColibriError:
                continue  # a template need not accept a part of a conversation
            if prompt.startswith(text):
                found.add(len(tokenizer.encode(text, add_special_tokens=False)))
        return tuple(sorted(found))
