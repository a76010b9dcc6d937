"""Scripted answers: what a caller gets of them, streamed and whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from colibri.answer import Answer, Chunk, Completion
from colibri.engine.request import Finished, FinishReason, Request, Token
from colibri.llm import embedded_model
from colibri.sampling import SamplingParams
from colibri.text.assemble import TextAssembler
from colibri.text.chat import ChatFormat, ChatRequest
from colibri.text.parts import ToolCall, whole_calls
from colibri.text.tokenizer import Tokenizer
from text.chat_kit import TOOLS

CALL = "<tool_call>weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(embedded_model())


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatFormat:
    chat = ChatFormat.load(Path(tmp_path_factory.mktemp("empty")), "glm_moe_dsa")
    assert chat is not None
    return chat


class Script:
    """A model that says `text` and ends for `reason`."""

    def __init__(self, chat: ChatFormat, tokenizer: Tokenizer, asked: ChatRequest) -> None:
        self._chat, self._tokenizer, self._asked = chat, tokenizer, asked

    def _asked_for(
        self, text: str, reason: FinishReason, stop: tuple[str, ...]
    ) -> tuple[Request, TextAssembler]:
        prompt = self._chat.render([{"role": "user", "content": "x"}], self._asked)
        request = Request([1], SamplingParams(stop=stop))
        for token_id in self._tokenizer.encode(text, add_special_tokens=False):
            request.events.put(Token(token_id, None, ()))
        request.events.put(Finished(reason))
        parser = self._chat.parser(prompt, self._asked)
        shown = self._chat.shown(self._tokenizer, self._asked)
        return request, TextAssembler(self._tokenizer, stop, False, parser, shown)

    def both(
        self, text: str, reason: FinishReason = "stop", stop: tuple[str, ...] = ()
    ) -> tuple[list[Chunk], Completion]:
        streamed = list(Answer(*self._asked_for(text, reason, stop)).chunks())
        return streamed, Answer(*self._asked_for(text, reason, stop)).complete()

    def whole(
        self, text: str, reason: FinishReason = "stop", stop: tuple[str, ...] = ()
    ) -> Completion:
        """The answer, proven to be what its stream adds up to."""
        streamed, answer = self.both(text, reason, stop)
        assert "".join(chunk.text for chunk in streamed) == answer.text
        assert "".join(chunk.reasoning for chunk in streamed) == answer.reasoning
        deltas = [delta for chunk in streamed for delta in chunk.tool_calls]
        assert whole_calls(deltas) == answer.tool_calls
        reasons: Iterator[str] = (c.finish_reason for c in streamed if c.finish_reason)
        assert list(reasons) == [answer.finish_reason]
        return answer


@pytest.fixture
def script(chat: ChatFormat, tokenizer: Tokenizer) -> Script:
    return Script(chat, tokenizer, ChatRequest(tools=TOOLS))


def test_reasoning_text_and_calls_come_apart(script: Script) -> None:
    answer = script.whole(f"Where?</think>I look.\n{CALL}{CALL}")
    assert (answer.reasoning, answer.text) == ("Where?", "I look.")
    assert answer.tool_calls == (ToolCall("weather", '{"city": "Oslo"}'),) * 2
    assert answer.tool_calls[0].parsed() == {"city": "Oslo"}
    assert answer.finish_reason == "tool_calls"


def test_an_answer_goes_on_as_a_message(script: Script, chat: ChatFormat) -> None:
    message = script.whole(f"Where?</think>I look.{CALL}").message()
    text = chat.render([{"role": "user", "content": "x"}, message], ChatRequest())
    assert f"<think>Where?</think>I look.{CALL}<|assistant|>" in text


def test_a_call_that_was_cut_off_is_text(script: Script) -> None:
    answer = script.whole(f"</think>{CALL}{CALL[:-9]}", "length")
    assert answer.text == CALL[:-9]
    assert len(answer.tool_calls) == 1
    assert answer.finish_reason == "length"
    streamed, _ = script.both(f"</think>{CALL[:-9]}")
    ends = [delta.end for chunk in streamed for delta in chunk.tool_calls if delta.end]
    assert ends == ["broken"]
    assert streamed[-1].finish_reason == "stop"


def test_thinking_that_was_cut_off_is_reasoning(script: Script) -> None:
    answer = script.whole("So many thoughts\n", "length")
    assert (answer.reasoning, answer.text) == ("So many thoughts\n", "")


def test_a_stop_string_ends_and_what_was_held_back_comes(script: Script) -> None:
    answer = script.whole("a</think>so </thi END more", stop=("END",))
    assert (answer.reasoning, answer.text, answer.finish_reason) == ("a", "so </thi ", "stop")


def test_without_thinking_all_is_text(chat: ChatFormat, tokenizer: Tokenizer) -> None:
    script = Script(chat, tokenizer, ChatRequest(thinking=False))
    answer = script.whole(f"no </think> tags {CALL}")
    assert answer.text == f"no </think> tags {CALL}"
    assert (answer.reasoning, answer.tool_calls) == ("", ())
