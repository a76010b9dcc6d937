"""Chat templates: what transformers renders, and what a hostile template cannot do."""

import contextlib
import json
import re
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from colibri.errors import TokenizerError
from colibri.text import limits
from colibri.text.limits import TemplateLimits
from colibri.text.template import ChatTemplate
from text import tokenizer_kit as kit

HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "<a> & 'é'"}}]


def render(source: str, messages: Any = HELLO, **kwargs: Any) -> str:
    template = ChatTemplate({"default": source}, {"bos_token": "<s>", "eos_token": "</s>"})
    return template.render(messages, **kwargs)


def test_the_demo_model() -> None:
    template = ChatTemplate.load(kit.DEMO)
    assert template is not None
    assert template.render(HELLO) == "[gMASK]<sop><|user|>hello<|assistant|>"
    assert template.render(HELLO, add_generation_prompt=False) == "[gMASK]<sop><|user|>hello"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}", "<s>hello</s>"),
        (
            "{{ tools is none }} {{ documents is none }} {{ thinking is defined }}",
            "True True False",
        ),
        ("{% if true %}\n  a\n{% endif %}\nb\n", "  a\nb"),
        ("    {% set x = 1 %}\nb", "b"),
        ("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012"),
        ("{% for i in range(3) if i != 1 %}{% continue %}{% endfor %}x", "x"),
        ("{% for m in messages %}{{ loop.index }}{{ loop.last }}{% endfor %}", "1True"),
        ("a{% generation %}{{ messages[0].content }}{% endgeneration %}b", "ahellob"),
        ("{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(1) ~ f('b') }}", "[1][b]"),
        ("{% set ns = namespace(n=1) %}{% set ns.n = ns.n + 2 %}{{ ns.n }}", "3"),
        ("{{ messages[0]['role'].upper() + ' ' ~ 'a-b'.split('-')[1] }}", "USER b"),
        ("{{ messages | map(attribute='role') | join(', ') }}", "user"),
        ("{{ '%s=%d' | format('a', 3) }} {{ 'x' * 3 }} {{ 7 % 4 }} {{ 2 ** 5 }}", "a=3 xxx 3 32"),
        ("{{ 'aXbX' | replace('X', '') }} {{ ' a ' | trim }} {{ 'ab'[::-1] }}", "ab a ba"),
        ("{{ {'b': 1, 'a': 2} | dictsort }} {{ [3, 1] | sort | first }}", "[('a', 2), ('b', 1)] 1"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ messages[0].get('tool_calls', 'none') }}{{ missing }}", "none"),
        ("{{ '<b>' }}{{ messages[0].content | e }}", "<b>hello"),
    ],
)
def test_language(source: str, expected: str) -> None:
    assert render(source) == expected


def test_tojson_is_plain_json() -> None:
    value = {"b": "<é> & 'q'", "a": [1, None]}
    assert render("{{ v | tojson }}", v=value) == json.dumps(value, ensure_ascii=False)
    assert render("{{ v | tojson(indent=2) }}", v=value) == json.dumps(
        value, ensure_ascii=False, indent=2
    )
    assert render("{{ v | tojson(sort_keys=true, ensure_ascii=true) }}", v=value) == json.dumps(
        value, sort_keys=True
    )


def test_strftime_now() -> None:
    day = datetime(2031, 2, 3, 4, 5)
    template = ChatTemplate({"default": "{{ strftime_now('%d %b %Y') }}"}, {}, now=lambda: day)
    assert template.render(HELLO) == "03 Feb 2031"


def test_variables_of_the_caller_reach_the_template() -> None:
    assert render("{{ enable_thinking }} {{ bos_token }}", enable_thinking=False) == "False <s>"


def test_tools_choose_their_template() -> None:
    sources = {"default": "plain", "tool_use": "{{ tools[0].function.name }}"}
    template = ChatTemplate(sources, {})
    assert template.render(HELLO) == "plain"
    assert template.render(HELLO, tools=TOOLS) == "f"
    assert ChatTemplate({"default": "{{ tools | length }}"}, {}).render(HELLO, tools=TOOLS) == "1"
    with pytest.raises(TokenizerError, match="no template named default among: rag"):
        ChatTemplate({"rag": "x"}, {}).render(HELLO)


def test_messages_are_not_changed() -> None:
    messages = [{"role": "user", "content": "a"}]
    with pytest.raises(TokenizerError, match="unsafe"):
        render("{{ messages.append(1) }}", messages)
    with pytest.raises(TokenizerError, match="unsafe"):
        render("{{ messages[0].update({'content': 'b'}) }}", messages)
    assert messages == [{"role": "user", "content": "a"}]


# Where it is found


def test_places_in_order(tmp_path: Path) -> None:
    assert ChatTemplate.load(tmp_path) is None
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"bos_token": {"content": "<s>"}}')
    assert ChatTemplate.load(tmp_path) is None
    config.write_text('{"bos_token": {"content": "<s>"}, "chat_template": "{{ bos_token }}config"}')
    assert rendered(tmp_path) == "<s>config"
    (tmp_path / "chat_template.json").write_text('{"chat_template": "{{ bos_token }}json"}')
    assert rendered(tmp_path) == "<s>json"
    (tmp_path / "chat_template.jinja").write_text("{{ bos_token }}jinja é", "utf-8")
    assert rendered(tmp_path) == "<s>jinja é"


def rendered(directory: Path) -> str:
    template = ChatTemplate.load(directory)
    assert template is not None
    return template.render(HELLO)


def test_named_templates(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    template = ChatTemplate.load(tmp_path)
    assert template is not None
    assert (template.render(HELLO), template.render(HELLO, tools=TOOLS)) == ("d", "t")


@pytest.mark.parametrize("value", [5, ["x"], [{"name": "default"}], {"a": "b"}, [{"name": 1}]])
def test_a_template_of_the_wrong_type_is_named(value: object, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json: chat_template"):
        ChatTemplate.load(tmp_path)


@pytest.mark.parametrize("data", [b"", b"version https://git-lfs.github.com/spec/v1", b"<html>"])
def test_a_damaged_file_is_named(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(data)
    with pytest.raises(TokenizerError, match=r"chat_template\.jinja: this is"):
        ChatTemplate.load(tmp_path)


# Errors of the template


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].nothing.more }}", "nothing"),
        ("{{ messages[0].content + 5 }}", "TypeError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ messages[0].content | nofilter }}", "nofilter"),
        ("{% include 'other' %}", "loader"),
        ("{{ missing | tojson }}", "TypeError"),
        ("{% for m in 5 %}{% endfor %}", "TypeError"),
        ("{{ 'a'.index('b') }}", "ValueError"),
        ("{{ range(1000000) | list }}", "OverflowError"),
    ],
)
def test_errors_carry_the_template_s_words(source: str, words: str) -> None:
    with pytest.raises(TokenizerError, match=rf"chat template: .*{words}"):
        render(source)


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ a", "{% endfor %}", "{% nonsense %}", "{{ " + "(" * 5000 + "1"]
)
def test_a_template_that_does_not_parse(source: str) -> None:
    with pytest.raises(TokenizerError, match="not a usable template"):
        render(source)


# Hostile templates

GIANT = "longer than 1000000 characters|more than 20000000 characters|a million or more"
GROW = (
    "{% set ns = namespace(s='ab', l=['ab']) %}{% for i in range(200) %}STEP{% endfor %}{{ ns.l }}"
)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__ }}",
        "{{ render.__globals__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ ''['__class__'] }}{{ ().__class__.__base__.__subclasses__() }}",
        "{{ '{0.__class__.__mro__}'.format(1) }}",
        "{{ messages | attr('__class__') | attr('x') }}",
    ],
)
def test_the_interpreter_is_out_of_reach(source: str) -> None:
    with contextlib.suppress(TokenizerError):
        assert render(source) == ""  # an attribute that is not there


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10 ** 9 }}",
        "{{ [1] * 10 ** 9 }}",
        "{{ 10 ** (10 ** 9) }}",
        "{{ 'a' | center(10 ** 9) }}",
        "{{ 'a' | indent(width=10 ** 9) }}",
        "{{ 'a'.ljust(10 ** 9) }}",
        "{{ '%01000000000d' % 1 }}",
        "{{ '%01000000000d' | format(1) }}",
        "{{ '{:01000000000d}'.format(1) }}",
        "{{ ('a' * 9000).replace('a', 'b' * 9000) }}",
        "{{ ('a' * 9000) | replace('a', 'b' * 9000) }}",
        "{{ ('b' * 9000).join(['a'] * 9000) }}",
        "{{ (['a'] * 9000) | join('b' * 9000) }}",
        "{% for i in range(90000) %}{{ 'a' * 9000 }}{% endfor %}",
        "{% set x %}{% for i in range(900) %}{{ 'a' * 9000 }}{% endfor %}{% endset %}",
        "{% macro f() %}{% for _ in [1] * 900 %}{{ 'a'*9000 }}{% endfor %}{% endmacro %}{{ f() }}",
        GROW.replace("STEP", "{% set ns.s = ns.s + ns.s %}"),
        GROW.replace("STEP", "{% set ns.s = ns.s ~ ns.s %}"),
        GROW.replace("STEP", "{% set ns.s = [ns.s, ns.s] | join %}"),
        GROW.replace("STEP", "{% set ns.l = ns.l + ns.l %}"),
        GROW.replace("STEP", "{% set ns.l = ns.l + ['a' * 900000] %}"),
        GROW.replace("STEP", "{% set ns.l = ns.l + [messages[0].content.ljust(900000)] %}"),
        GROW.replace("STEP", "{% set ns.l = ns.l + ['a' | center(900000)] %}"),
        GROW.replace("STEP", "{% set ns.l = [ns.l, ns.l] %}"),
        GROW.replace("STEP", "{% set ns.l = {'a': ns.l, 'b': ns.l} %}"),
        GROW.replace("STEP", "{% set ns.l = [ns.l, messages, ns.l | list] %}"),
        GROW.replace("STEP", "{% set ns.l = [ns.l, ns.l] | sum(start=[]) + ['a' * 9000] %}"),
        "{{ [1] | batch(10 ** 9, 'x') | list | length }}",
        "{{ [1] | slice(10 ** 9, 'x') | list | length }}",
        GROW.replace("STEP", "{% set ns.l = [ns.l, ns.l] %}").replace(
            "ns.l }}", "ns.l | tojson }}"
        ),
        GROW.replace("STEP", "{% set ns.l = [ns.l, ns.l] %}").replace("{{ ns.l", "{{ '%s' % ns.l"),
        "{{ '%*d' % (10 ** 9, 1) }}",
        "{{ '{:{}d}'.format(1, 10 ** 9) }}",
        "{{ ('{:99999}' * 9000).format(1) }}",
        "{{ ('%(a)s' * 9000) % {'a': 'b' * 9000} }}",
        "{{ ('{0}' * 9000).format('b' * 9000) }}",
        "{{ 'a' | replace('a', new='b' * 9000) | replace('b', 'c' * 9000) }}",
        "{{ ('b' * 9000).join((['a'] * 9000) | map('upper')) }}",
        "{{ (['a'] * 9000) | map('upper') | join('b' * 9000) }}",
        "{{ 'a' | slice(10 ** 6) | list }}",
        "{{ 'a' | batch(10 ** 6, 'b') | list }}",
        "{{ ('a' * 900000) | list }}",
        "{{ ('a\n' * 9000) | indent(9000) }}",
        "{{ ('a\r' * 9000) | indent('b' * 9000) }}",
        "{{ ([1] * 9000) | tojson(indent=9000) }}",
        "{{ ([1] * 9000) | tojson(separators=['b' * 9000, ':']) }}",
        "{{ 1 | round(-10 ** 6) }}",
        "{{ ('f' * 90000) | int(base=16) }}",
        "{{ ([[1] * 9000] * 9000) | sum(start=[]) }}",
        "{{ (('b' * 400000) + 'a' * 400000).rfind('c' + 'a' * 200000) }}",
        GROW.replace("STEP", "{% set ns.n = (ns.n or 9) * (ns.n or 9) %}"),
        GROW.replace("STEP", "{% set ns.l = [ns.l, ('a' * 900000)[1:]] %}"),
        GROW.replace("STEP", "{% set ns.l = [ns.l, range(99999) | list] %}"),
        GROW.replace("STEP", "{% set ns.l = [ns.l, " + "[1, 1, 1, 1, 1, 1, 1]," * 1000 + "] %}"),
    ],
)
def test_giant_output_is_refused(source: str) -> None:
    bounds = TemplateLimits(characters=1_000_000, total_characters=20_000_000, seconds=20)
    with pytest.raises(TokenizerError, match=GIANT):
        ChatTemplate({"default": source}, {}, limits=bounds).render(HELLO)


NESTED = (
    "{% set ns = namespace(a=[1], b=[1], s=(1,), t=(1,)) %}{% for i in range(60) %}"
    "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}"
    "{% set ns.s = (ns.s, ns.s) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}"
)


@pytest.mark.parametrize(
    "source",
    [
        "ns.a == ns.b",
        "ns.a < ns.b",
        "1 < 2 != ns.b",
        "ns.a in [ns.b]",
        "ns.a is eq ns.b",
        "[ns.a] | select('equalto', ns.b) | list",
        "[ns.a] | select('in', [ns.b]) | list",
        "[ns.a, ns.b] | sort",
        "[ns.a, ns.b] | map('list') | max",
        "[{'a': ns.a}, {'a': ns.b}] | groupby('a')",
        "[ns.b].index(ns.a)",
        "[ns.b].count(ns.a)",
        "{'a': ns.a}.items() == {'a': ns.b}.items()",
        "{ns.s: 1}",
        "{}[ns.s]",
        "{}.get(ns.s)",
        "[ns.s, ns.t] | unique | list",
        "dict([[ns.s, 1]])",
        "'%s' % ns.a",
        "ns.a is lower",
        "raise_exception(ns.a)",
    ],
)
def test_lists_within_lists_are_measured_before_they_are_read(source: str) -> None:
    bounds = TemplateLimits(characters=10_000, seconds=20)
    template = ChatTemplate({"default": f"{NESTED}{{{{ {source} }}}}"}, {}, limits=bounds)
    with pytest.raises(TokenizerError, match="longer than 10000 characters"):
        template.render(HELLO)


def test_a_namespace_does_not_show_what_it_holds() -> None:
    assert render(NESTED + "{{ ns }}") == "<namespace>"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("'a'.translate({97: 'b'})", "translate"),
        ("('a' | attr('translate'))({97: 'b'})", "translate"),
        ("'a'['expandtabs'](9)", "expandtabs"),
        ("'a'.encode()", "encode"),
        ("('a' | e).encode()", "encode"),
        ("'a'.maketrans('a', 'b')", "maketrans"),
        ("(1).to_bytes(9)", "to_bytes"),
        ("(1.5).as_integer_ratio()", "as_integer_ratio"),
        ("{}.fromkeys('abc')", "fromkeys"),
        ("{}.items().isdisjoint([])", "isdisjoint"),
        ("'www.a.bc' | urlize(rel='b')", "urlize"),
        ("'a' | wordwrap(9, wrapstring='b')", "wordwrap"),
    ],
)
def test_what_no_template_needs_is_refused_by_name(source: str, name: str) -> None:
    with pytest.raises(TokenizerError, match=name):
        render(f"{{{{ {source} }}}}")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("'ab'.replace('a', 'b').upper().ljust(3)", "BB "),
        ("'a-b'.rsplit('-', 1)", "['a', 'b']"),
        ("[1, 2].index(2)", "1"),
        ("(1, 2, 3)[::-1]", "(3, 2, 1)"),
        ("[1, 2, 3][1:]", "[2, 3]"),
        ("{'b': (1,)}.get('b')[0]", "1"),
        ("'x' in 'xy' and 1 < 2 <= 2 and 3 not in [1]", "True"),
        ("'{}-{a}'.format(20240101, a=1)", "20240101-1"),
        ("'**%d%%' | format(5)", "**5%"),
        ("['b', 'a'] | sort(reverse=true) | join", "ba"),
        ("'a\nb' | indent(2)", "a\n  b"),
        ("[1, [2]] | tojson(separators=(',', ':'))", "[1,[2]]"),
        ("[1, 2, 3] | batch(2, 0) | list", "[[1, 2], [3, 0]]"),
        ("2.567 | round(1)", "2.6"),
    ],
)
def test_what_templates_use(source: str, expected: str) -> None:
    assert render(f"{{{{ {source} }}}}") == expected


def test_a_loop_takes_pairs_apart() -> None:
    source = "{% for k, v in {'a': 1}.items() %}{% set x, y = k, v %}{{ y }}{{ x }}{% endfor %}"
    assert render(source) == "1a"


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n - 1) ~ f(n - 1) if n }}{% endmacro %}{{ f(90) }}",
        "{% for i in range(999) recursive %}{{ loop(range(999)) if loop.depth < 9 }}{% endfor %}",
        "{% for i in range(99999) if range(9) | list | length == 1 %}{% endfor %}",
    ],
)
def test_endless_templates_are_stopped(source: str) -> None:
    bounds = TemplateLimits(steps=20_000, seconds=20)
    with pytest.raises(TokenizerError, match="more than 20000 steps"):
        ChatTemplate({"default": source}, {}, limits=bounds).render(HELLO)


def test_time_is_bounded() -> None:
    source = "{% for i in range(99999) %}{% set x = range(9999) | list %}{% endfor %}"
    bounds = TemplateLimits(seconds=0.05)
    template = ChatTemplate({"default": source + "{{ messages }}"}, {}, limits=bounds)
    with pytest.raises(TokenizerError, match=re.escape("more than 0.05 seconds")):
        template.render(HELLO)


def test_endless_recursion_is_an_error() -> None:
    with pytest.raises(TokenizerError, match="RecursionError"):
        render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")


def test_limits_are_of_one_rendering() -> None:
    source = "{% for i in range(900) %}{% endfor %}x"
    template = ChatTemplate({"default": source}, {}, limits=TemplateLimits(steps=1000))
    assert [template.render(HELLO) for _ in range(3)] == ["x", "x", "x"]


def test_threads_render_side_by_side() -> None:
    """Each has its own account, and none waits for another that is in the middle of its own."""
    source = "{% for i in range(500) %}{{ n }}{{ wait(i) }}{% endfor %}"
    template = ChatTemplate({"default": source}, {}, limits=TemplateLimits(steps=1200))
    meet, found = threading.Barrier(4, timeout=30), dict[int, str]()

    def work(n: int) -> None:
        def wait(i: int) -> str:
            if i == 250:
                meet.wait()
            return ""

        found[n] = template.render(HELLO, n=n, wait=wait)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: str(n) * 500 for n in range(4)}


# As templates of the field do it: each turn asks for the whole conversation's length, slices it,
# looks at its last message, and writes out the tools.
EACH_TURN = """\
{%- if tools %}{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}{%- endif %}
{%- for message in messages[::-1] %}
  {%- set index = (messages|length - 1) - loop.index0 %}
  {%- if loop.last or (messages|last).role == "user" %}{{ index }}{%- endif %}
  {%- if messages[index:]|selectattr("role", "equalto", "x")|list|length %}x{%- endif %}
  {{- message.content }}{%- for call in message.tool_calls or [] %}{{ call|tojson }}{%- endfor %}
{%- endfor %}"""


@pytest.mark.parametrize("source", [EACH_TURN, EACH_TURN.replace("messages[index:]", "[]")])
def test_a_conversation_is_measured_once(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, since seconds belong to the machine: how many values an account looks at."""
    template = ChatTemplate({"default": source}, {})
    counts = []
    for size in (100, 200):
        looked_at = 0

        def count(value: Any, inside: Any = limits._inside) -> Any:
            nonlocal looked_at
            looked_at += 1
            return inside(value)

        monkeypatch.setattr(limits, "_inside", count)
        calls = [{"name": "f", "arguments": {"a": [1, 2, {"b": "c"}]}}]
        messages = [{"role": "user", "content": "Hi.", "tool_calls": calls}] * size
        template.render([dict(m) for m in messages], tools=calls * 20)
        counts.append(looked_at)
        monkeypatch.undo()
    assert counts[0] < 3000
    assert counts[1] <= 2.1 * counts[0]
