"""Conversations as the families were trained on them, and what a template tells of its model."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

import golden
from colibri.errors import ConfigError
from colibri.text.builtin import BUILT_IN, built_in
from colibri.text.chat import ChatFormat, ChatRequest
from colibri.text.effort import EFFORTS
from text import tokenizer_kit as kit
from text.chat_kit import TOOLS

GOLDEN = Path(__file__).parent / "chats"
FAMILIES = ("glm_moe_dsa", "glm5_next", "qwen3_5_moe")


def says(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "function", "id": "1", "function": {"name": name, "arguments": arguments}}


TURNS = [
    says("system", "Be brief."),
    says("user", "What is 2 + 2?"),
    says("assistant", "4", reasoning_content="Easy."),
    says("user", [{"type": "text", "text": "And "}, {"type": "text", "text": "3 + 3?"}]),
]
CALLS = [
    says("user", "Weather in Oslo and Rome?"),
    says(
        "assistant",
        "I will look.",
        reasoning_content="Two calls.",
        tool_calls=[
            call("weather", json.dumps({"city": "Oslo", "days": 2})),
            call("weather", {"city": "Rome", "hours": [1, 2], "note": None}),
        ],
    ),
    says("tool", "rain", tool_call_id="1"),
    says("tool", "sun"),
    says("assistant", "", tool_calls=[call("time", "{}")]),
    says("tool", "noon"),
]
CASES: dict[str, tuple[list[Any], ChatRequest]] = {
    "hello": ([says("user", "Hello")], ChatRequest()),
    "thinking-off": ([says("user", "Hello")], ChatRequest(thinking=False)),
    "thinking-on": ([says("user", "Hello")], ChatRequest(thinking=True)),
    "effort-low": ([says("user", "Hello")], ChatRequest(reasoning_effort="low")),
    "effort-medium": ([says("user", "Hello")], ChatRequest(reasoning_effort="medium")),
    "effort-none": ([says("user", "Hello")], ChatRequest(reasoning_effort="none")),
    "turns": (TURNS, ChatRequest()),
    "tools": (TURNS, ChatRequest(tools=TOOLS)),
    "tools-none": (TURNS, ChatRequest(tools=TOOLS, tool_choice="none")),
    "calls": (CALLS, ChatRequest(tools=TOOLS)),
    "calls-turn": ([*CALLS, says("assistant", "Mixed."), TURNS[1]], ChatRequest(tools=TOOLS)),
}


def chat_of(family: str, directory: Path) -> ChatFormat:
    chat = ChatFormat.load(directory, family)
    assert chat is not None
    return chat


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("family", FAMILIES)
def test_golden(family: str, case: str, tmp_path: Path) -> None:
    messages, request = CASES[case]
    text = chat_of(family, tmp_path).render(messages, request)
    assert text == (GOLDEN / family / f"{case}.txt").read_text("utf-8")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_s_calls_are_read_as_its_template_writes_them(family: str, tmp_path: Path) -> None:
    chat, request = chat_of(family, tmp_path), ChatRequest(tools=TOOLS)
    prompt = chat.render(CALLS[:1], request)
    whole = chat.template.render(
        [CALLS[0], {**CALLS[1], "tool_calls": [call("time", {}), call("time", {"a": 5})]}],
        tools=TOOLS,
        add_generation_prompt=False,
    )
    assert whole.startswith(prompt)
    parser = chat.parser(prompt, request)
    answer = whole[len(prompt) :].removesuffix("<|im_end|>\n")
    parts = parser.push(answer) + parser.finish()
    assert (parts.reasoning, parts.text) == ("Two calls.", "I will look.")
    assert parser.complete_calls == 2


def test_the_template_that_qwen3_ships(tmp_path: Path) -> None:
    chat = chat_of("qwen3_moe", kit.real("qwen3", tmp_path))
    assert (chat.built_in, chat.thinks, chat.tool_format) == (False, True, "hermes")
    request = ChatRequest(tools=TOOLS, thinking=True)
    assert chat.notes(request) == []
    text = chat.render(CALLS, request)
    assert '"arguments": {"city": "Oslo", "days": 2}}\n</tool_call>' in text
    off = chat.render(CALLS[:1], ChatRequest(thinking=False))
    assert off.endswith("<think>\n\n</think>\n\n")
    parser = chat.parser(chat.render(CALLS[:1], request), request)
    answer = text[text.index("<think>") : text.index("<|im_end|>", text.index("<think>"))]
    parts = parser.push(answer) + parser.finish()
    assert (parts.reasoning, parts.text, parser.complete_calls) == ("Two calls.", "I will look.", 2)


def test_built_in_only_for_want_of_an_own(tmp_path: Path) -> None:
    assert ChatFormat.load(tmp_path, "olmoe") is None
    assert chat_of("glm_moe_dsa", tmp_path).built_in
    (tmp_path / "chat_template.jinja").write_text("own")
    own = chat_of("glm_moe_dsa", tmp_path)
    assert not own.built_in
    assert own.render([says("user", "x")], ChatRequest()) == "own"
    assert {name for name in BUILT_IN if built_in(name)} == set(BUILT_IN)


@pytest.mark.parametrize(
    ("family", "levels"),
    [
        ("glm_moe_dsa", ["Low", "Low", "Medium", "High", "Max", "Max"]),
        ("glm5_next", ["Low", "Low", "High", "High", "Max", "Max"]),
    ],
)
def test_efforts_are_ordered_and_replacements_said(
    family: str, levels: list[str], tmp_path: Path
) -> None:
    chat = chat_of(family, tmp_path)
    for effort, level in zip(EFFORTS[1:], levels, strict=True):
        request = ChatRequest(reasoning_effort=effort)
        text = chat.render([says("user", "x")], request)
        assert f"<|system|>Reasoning Effort: {level}<|user|>" in text
        assert bool(chat.notes(request)) is (level.lower() != effort)


def test_what_a_model_cannot_do_is_said(tmp_path: Path) -> None:
    flash, qwen = chat_of("glm5_next", tmp_path), chat_of("qwen3_5_moe", tmp_path)
    assert "no switch" in flash.notes(ChatRequest(thinking=False))[0]
    assert "no switch" in flash.notes(ChatRequest(reasoning_effort="none"))[0]
    assert "no levels" in qwen.notes(ChatRequest(reasoning_effort="high"))[0]
    assert qwen.notes(ChatRequest(reasoning_effort="none")) == []
    plain = own(tmp_path, "{{ messages }}")
    assert "no reasoning" in plain.notes(ChatRequest(thinking=True))[0]
    assert plain.notes(ChatRequest(thinking=False, reasoning_effort=None)) == []
    with pytest.raises(ConfigError, match="no place for them"):
        plain.render([says("user", "x")], ChatRequest(tools=TOOLS))
    odd = own(tmp_path, "{{ tools }}")
    assert "stay in the text" in odd.notes(ChatRequest(tools=TOOLS))[0]


BROKEN = ['{"city": "Os', "[1]", "null", '{"a": NaN}', "Oslo"]


@pytest.mark.parametrize("broken", BROKEN)
def test_an_agent_whose_call_was_cut_off_can_go_on(broken: str, tmp_path: Path) -> None:
    """The model is shown what was written where its template can, else the call without it."""

    def calls(*arguments: Any) -> list[Any]:
        asked = [call("weather", one) for one in arguments]
        return [says("user", "x"), says("assistant", "", tool_calls=asked), says("tool", "bad")]

    whole = {"city": "Rome"}
    mixed, request = calls(whole, broken), ChatRequest()
    where = r"messages\[1\].tool_calls\[1\].function.arguments: this is no JSON object"
    for family in FAMILIES:
        chat = chat_of(family, tmp_path)
        assert chat.render(mixed, request) == chat.render(calls(whole, {}), request)
        assert "Rome" in chat.render(mixed, request)
        (note,) = chat.notes(request, chat.history(mixed))
        assert re.match(where, note)
        assert chat.notes(request, chat.history(calls(whole, "{}", "", None))) == []
    quotes = own(tmp_path, LOOP.replace("ARGUMENTS", "c.function.arguments | tojson"))
    assert quotes.render(mixed, request) == '[{"city": "Rome"}][{}]'
    assert re.match(where, quotes.notes(request, quotes.history(mixed))[0])
    given = "c.function.arguments"
    for form in (f"{given} if {given} is string else {given} | tojson", f"'' + {given}"):
        chat = own(tmp_path, LOOP.replace("ARGUMENTS", form))
        assert chat.render(mixed, request) == '[{"city": "Rome"}][' + broken + "]"
        assert chat.notes(request, chat.history(mixed)) == []


LOOP = "{% for m in messages %}{% for c in m.tool_calls %}[{{ ARGUMENTS }}]{% endfor %}{% endfor %}"


@pytest.mark.parametrize("name", ["enable_thinking", "thinking"])
def test_the_switch_is_what_the_template_asks_for(name: str, tmp_path: Path) -> None:
    for thinks in ("", "{# </think> #}"):
        chat = own(tmp_path, f"{{{{ {name} }}}}{thinks}")
        for said in (True, False):
            request = ChatRequest(thinking=said)
            assert chat.render([says("user", "x")], request) == str(said)
            assert chat.notes(request) == []
        unasked = own(tmp_path, f"{{{{ messages[0].{name} is string }}}}{thinks}")
        assert bool(unasked.notes(ChatRequest(thinking=False))) is bool(thinks)
        assert bool(unasked.notes(ChatRequest(thinking=True))) is not bool(thinks)


def own(directory: Path, template: str) -> ChatFormat:
    (directory / "chat_template.jinja").write_text(template)
    return chat_of("olmoe", directory)


def test_a_template_without_reasoning_leaves_tags_in_the_text(tmp_path: Path) -> None:
    parser = own(tmp_path, "{{ messages }}").parser("", ChatRequest())
    text = "<think>a</think> <tool_call>f</tool_call>"
    assert (parser.push(text) + parser.finish()).text == text


def test_calls_are_read_only_where_tools_were_offered(tmp_path: Path) -> None:
    chat = chat_of("glm_moe_dsa", tmp_path)
    text = "<tool_call>time</tool_call>"
    for request in (ChatRequest(), ChatRequest(tools=TOOLS, tool_choice="none")):
        parser = chat.parser("<think></think>", request)
        assert (parser.push(text) + parser.finish()).text == text


def test_variables_reach_the_template(tmp_path: Path) -> None:
    chat = own(tmp_path, "{{ colour }} {{ reasoning_effort }}")
    request = ChatRequest(variables={"colour": "red"}, reasoning_effort="high")
    assert chat.render([says("user", "x")], request) == "red high"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": "x"}, "tools must be a list"),
        ({"tools": [{"name": "f"}]}, r"tools\[0\] must be"),
        ({"tools": [TOOLS[0], {"function": {"name": ""}}]}, r"tools\[1\] must be"),
        ({"tools": [{"function": {"name": "f", "parameters": 5}}]}, r"tools\[0\] \(f\)"),
        ({"tool_choice": "required"}, "tool_choice is required, and there are no tools"),
        ({"thinking": "on"}, "thinking is 'on'"),
        ({"reasoning_effort": "huge"}, "reasoning_effort is 'huge'; one of none, minimal"),
        ({"enable_thinking": True}, "no option 'enable_thinking'; known are tools"),
        ({"variables": 5}, "variables"),
    ],
)
def test_bad_options_are_named(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ChatRequest.of(options)


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ("x", "must be a list"),
        ([5], "a call is int"),
        ([call("f", ["a"])], r"tool_calls\[0\].function: arguments must be an object"),
        ([{"function": {"arguments": {}}}], "needs a name"),
    ],
)
def test_bad_calls_in_messages_are_named(calls: Any, words: str, tmp_path: Path) -> None:
    messages = [says("user", "x"), says("assistant", "", tool_calls=calls)]
    with pytest.raises(ConfigError, match=rf"messages\[1\].*{words}"):
        chat_of("glm_moe_dsa", tmp_path).render(messages, ChatRequest())


@pytest.mark.parametrize(
    ("message", "field", "says"),
    [
        ({"role": "usr", "content": "hi"}, "role", "'usr'; it may be system, developer, user"),
        ({"role": "User", "content": "hi"}, "role", "'User'"),
        ({"role": None, "content": "hi"}, "role", "None"),
        ({"role": ["user"], "content": "hi"}, "role", "user"),
        ({"role": "user"}, "content", "has no"),
        ({"role": "user", "contents": "hi"}, "content", "has no"),
        ({"role": "tool", "content": None}, "content", "has no"),
        ({"role": "assistant", "content": None}, "content", "has no"),
        ({"role": "user", "content": 5}, "content", "neither text nor"),
        ({"role": "user", "content": {"text": "hi"}}, "content", "neither text nor"),
    ],
)
def test_a_message_that_is_none_is_named(message: Any, field: str, says: str) -> None:
    chat = ChatFormat.load(golden.tiny("glm_moe_dsa"), "glm_moe_dsa")
    assert chat is not None
    with pytest.raises(ConfigError, match=r"messages\[1\]") as raised:
        chat.render([{"role": "user", "content": "hi"}, message], ChatRequest())
    assert raised.value.field == f"messages[1].{field}"
    assert says in str(raised.value)


def test_the_server_takes_the_same_roles() -> None:
    from colibri.server.openai.structs.chat import Message
    from colibri.text.template import ROLES

    assert {kind.__struct_config__.tag for kind in get_args(Message)} == set(ROLES)


def test_a_developer_is_the_system() -> None:
    chat = ChatFormat.load(golden.tiny("glm_moe_dsa"), "glm_moe_dsa")
    assert chat is not None
    asked = [says("user", "Hello")]
    brief = [
        chat.render([says(r, "Brief."), *asked], ChatRequest()) for r in ("system", "developer")
    ]
    assert brief[0] == brief[1]


@pytest.mark.parametrize(
    ("tail", "end"),
    [
        ("<think>\n", "</think>"),
        ("<think>", "</think>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("[THINK]\n", "[/THINK]"),
    ],
)
def test_a_template_that_never_names_the_closing_tag(tmp_path: Path, tail: str, end: str) -> None:
    """The model has been taught to write it all the same."""
    source = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    source += "{% if add_generation_prompt %}" + tail + "{% endif %}"
    (tmp_path / "chat_template.jinja").write_text(source)
    chat = ChatFormat.load(tmp_path, "x")
    assert chat is not None
    prompt = chat.render([says("user", "Hello")], ChatRequest())
    parser = chat.parser(prompt, ChatRequest())
    parts = parser.push(f"Well.\n{end}\n\nHello!") + parser.finish()
    assert (parts.reasoning, parts.text) == ("Well.", "Hello!")
    assert chat.closed(prompt).endswith(end if tail.endswith((">", "]")) else f"{end}\n\n")
