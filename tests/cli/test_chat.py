from __future__ import annotations

from typing import Any

from colibri.cli.talk.backend import Wishes
from colibri.cli.talk.conversation import Conversation
from colibri.cli.talk.local import Local
from colibri.cli.talk.loop import attempt
from colibri.errors import ColibriError, ReadError


def test_each_piped_line_is_a_message_and_only_answers_are_printed(coli: Any, llm: Any) -> None:
    outcome = coli("chat", stdin=["one", "", "two"])
    assert (outcome.code, outcome.out, outcome.err) == (0, "Hello world.\n" * 2, "")
    assert [m["content"] for m in llm.requests[1]] == ["one", "Hello world.", "two"]


def test_reset_forgets_and_exit_leaves(coli: Any, llm: Any) -> None:
    coli("chat", "--system", "S", stdin=["one", "/reset", "two", "/exit", "three"])
    assert [m["content"] for m in llm.requests[1]] == ["S", "two"]
    assert len(llm.requests) == 2


def test_reasoning_stays_in_the_conversation(coli: Any, llm: Any) -> None:
    llm.reasoning = ["Hm."]
    outcome = coli("chat", "--thinking", "off", stdin=["one", "two"])
    assert (outcome.out, outcome.err) == ("Hello world.\n" * 2, "")
    assert llm.requests[1][1] == {
        "role": "assistant",
        "content": "Hello world.",
        "reasoning_content": "Hm.",
    }
    assert llm.options == [{"thinking": False}] * 2


def test_slash_commands(coli: Any, llm: Any) -> None:
    outcome = coli("chat", stdin=["/stats", "hi", "/stats", "/help", "//odd"])
    assert "no answer yet" in outcome.err
    assert "9 hits, 3 misses" in outcome.err
    assert "Ctrl-C stops an answer" in outcome.err
    assert llm.requests[1][-1] == {"role": "user", "content": "/odd"}


def test_model_without_template_is_told_so(coli: Any, llm: Any) -> None:
    (llm.path / "chat_template.jinja").unlink()
    outcome = coli("chat", stdin=["hi"])
    assert outcome.code == 4
    assert "no chat template" in outcome.err
    assert "coli run" in outcome.err
    assert llm.configs == []


def test_error_in_a_pipe_ends_with_its_code(coli: Any, llm: Any) -> None:
    llm.pieces = ["par", ReadError("disk gone")]
    outcome = coli("chat", stdin=["one", "two"])
    assert (outcome.code, outcome.out) == (6, "par\n")
    assert len(llm.requests) == 1


def test_bad_bytes_in_a_pipe_name_the_line(coli: Any, llm: Any) -> None:
    outcome = coli("chat", stdin=b"ok\n\xff\n")
    assert outcome.code == 2
    assert "line 2" in outcome.err


def test_unknown_command_in_a_pipe_ends_with_its_code(coli: Any, llm: Any) -> None:
    outcome = coli("chat", stdin=["one", "/stat", "two"])
    assert (outcome.code, outcome.out) == (2, "Hello world.\n")
    assert (
        outcome.err == "coli: error: unknown command /stat; did you mean /stats? /help tells them\n"
    )


def _conversation(llm: Any, quiet: bool = True) -> Conversation:
    return Conversation(Local(llm), Wishes(), None, quiet=quiet)


def test_interrupted_answer_stays_and_the_program_goes_on(llm: Any, capsys: Any) -> None:
    conversation = _conversation(llm)
    llm.pieces = ["Once upon", KeyboardInterrupt()]
    assert attempt("story", conversation)
    assert [m["content"] for m in conversation.messages] == ["story", "Once upon"]
    llm.pieces = ["More."]
    assert attempt("go on", conversation)
    assert conversation.messages[-1] == {"role": "assistant", "content": "More."}
    assert capsys.readouterr().err == "(stopped)\n"


def test_interrupt_before_the_first_token_takes_the_question_back(llm: Any) -> None:
    conversation = _conversation(llm)
    llm.pieces = [KeyboardInterrupt()]
    assert attempt("story", conversation)
    assert conversation.messages == []


def test_failed_turn_takes_the_question_back(llm: Any, capsys: Any) -> None:
    conversation = _conversation(llm)
    llm.pieces = ["x", ColibriError("context is full")]
    assert attempt("long", conversation)
    assert conversation.messages == []
    assert "coli: error: context is full" in capsys.readouterr().err


def test_an_answer_that_was_cut_off_says_so(llm: Any, capsys: Any) -> None:
    llm.finish_reason = "length"
    _conversation(llm, quiet=False).ask("hi")
    assert "--max-tokens" in capsys.readouterr().err
    _conversation(llm).ask("hi")
    assert capsys.readouterr().err == ""
