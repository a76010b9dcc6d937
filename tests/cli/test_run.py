from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from colibri.cli import terminal
from colibri.errors import CapacityError, ReadError
from colibri.planner.plan import DEFAULT_CONTEXT


def test_text_goes_to_stdout_and_facts_to_stderr(coli: Any, llm: Any) -> None:
    outcome = coli("run", "-v", "Say hello")
    assert (outcome.code, outcome.out) == (0, "Hello world.\n")
    assert llm.requests == ["Say hello"]
    for fact in ("fake: int4-gs64", "budget 1 GB", "3 tokens", "2.00 tok/s", "9 hits, 3 misses"):
        assert fact in outcome.err
    assert llm.closed


def test_one_line_before_and_one_after(coli: Any, llm: Any) -> None:
    before, after = coli("run", "Say hello").err.splitlines()
    assert before.startswith("fake: int4-gs64; 900.0 MB of a budget of 1.00 GB (loaded in ")
    assert after.startswith("3 tokens, 2.00 tok/s, first token after ")
    assert after.endswith(" s, 75.0 % hits in prompt and answer, 60.0 MB of 1.00 GB")


def test_nothing_that_is_unusual_is_left_out_of_it(coli: Any, llm: Any) -> None:
    llm.plan.notes.append("half the memory is another's")
    llm.finish_reason = "length"
    llm.counted = {"approx_tokens": 4, "approx_agreed": 3, "guard_shrinks": 1}
    err = coli("run", "x").err
    for fact in (
        "note: half the memory",
        "stopped at the length limit",
        "approx   75.0 % of",
        "the cache gave",
    ):
        assert fact in err


def test_a_wanted_stop_is_no_error(coli: Any, llm: Any) -> None:
    llm.pieces = ["Hello", KeyboardInterrupt()]
    outcome = coli("run", "x")
    assert (outcome.code, outcome.out) == (130, "Hello\n")
    assert outcome.err.endswith("; ended by interruption\ncoli: stopped\n")
    assert "error" not in outcome.err


def test_colour_is_for_terminals_that_want_it(monkeypatch: Any) -> None:
    tty = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.has_colour(tty)
    assert not terminal.has_colour(SimpleNamespace(isatty=lambda: False))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.has_colour(tty)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not terminal.has_colour(tty)


def test_quiet_says_nothing_on_stderr(coli: Any, llm: Any) -> None:
    assert coli("run", "-q", "x").err == ""


def test_prompt_from_standard_input_loses_one_newline_only(coli: Any, llm: Any) -> None:
    coli("run", "-q", "-", stdin="grüße\r\n\n".encode())
    coli("run", "-q", stdin=b"piped")
    assert llm.requests == ["grüße\r\n", "piped"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "says"),
    [
        (["run", ""], b"", "prompt is empty"),
        (["run"], b"", "prompt is empty"),
        (["run", "-"], b"ab\xff", "not UTF-8 (at byte 2)"),
        (["run", "a\udc80b"], b"", "not valid UTF-8"),
        (["run", "a", "--stop", "a\udc80b"], b"", "--stop is not valid UTF-8"),
        (["run", "a", "--chat", "--system", "a\udc80b"], b"", "--system is not valid UTF-8"),
        (["run", "--ids", "1 x"], b"", "'x' is not a token id"),
        (["run", "--ids", " , "], b"", "no token ids"),
        (["run", "--ids", "--chat", "1"], b"", "do not go together"),
        (["run", "--system", "s", "x"], b"", "needs --chat"),
        (["run", "--thinking", "on", "x"], b"", "need --chat"),
        (["run", "--chat", "--thinking", "x", "y"], b"", "--thinking"),
        (["run", "--chat", "--reasoning-effort", "huge", "y"], b"", "one of none, minimal, low"),
        (["run", "--logit-bias", "5", "x"], b"", "ID=BIAS"),
        (["run", "--ram", "nan", "x"], b"", "--ram: 'nan'"),
        (["run", "--temperature", "warm", "x"], b"", "--temperature"),
        (["run", "--temperature", "nan", "x"], b"", "temperature"),
        (["run", "--top-p", "2", "x"], b"", "top_p"),
        (["run", "--max-tokens", "0", "x"], b"", "max_tokens"),
        (["run", "--model", "", "x"], b"", "--model"),
        (["run", "--frob", "x"], b"", "coli run --help"),
        (["run", "--stats-json", "/dev/null/stats.json", "x"], b"", "--stats-json"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    coli: Any, llm: Any, arguments: list[str], stdin: bytes, says: str
) -> None:
    outcome = coli(*arguments, stdin=stdin)
    assert outcome.code == 2
    assert outcome.out == ""
    assert says in outcome.err
    assert outcome.err.startswith("coli: error: ")
    assert outcome.err.count("\n") == 1
    assert llm.configs == []


def test_ids_in_and_out(coli: Any, llm: Any) -> None:
    outcome = coli("run", "-q", "--ids", "5, 6\n7")
    assert outcome.out == "101 102 103\n"
    assert llm.requests == [[5, 6, 7]]


def test_chat_sends_messages(coli: Any, llm: Any) -> None:
    coli("run", "-q", "--chat", "--system", "Be brief.", "Hi")
    assert llm.requests == [
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    ]


def test_reasoning_goes_to_stderr_and_its_options_to_the_model(coli: Any, llm: Any) -> None:
    llm.reasoning = ["Let me ", "see."]
    options = ("--thinking", "on", "--reasoning-effort", "low")
    outcome = coli("run", "--chat", *options, "Hi")
    assert outcome.out == "Hello world.\n"
    assert "Let me see.\n\n" in outcome.err
    assert llm.options == [{"thinking": True, "reasoning_effort": "low"}]
    assert "Let me" not in coli("run", "-q", "--chat", "Hi").err


def test_reasoning_is_dim_on_a_terminal_and_obeyed_by_none(
    coli: Any, llm: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("colibri.cli.terminal.is_terminal", lambda stream: True)
    llm.reasoning = ["a\x1b[31mb"]
    assert "\x1b[2ma\N{REPLACEMENT CHARACTER}[31mb\x1b[22m" in coli("run", "--chat", "Hi").err


def test_only_given_sampling_flags_change_the_models_defaults(coli: Any, llm: Any) -> None:
    coli(
        "run", "-q", "--temperature", "0", "--stop", "A", "--stop", "B", "--logit-bias", "7=-2", "x"
    )
    params = llm.params[0]
    assert (params.temperature, params.max_tokens) == (0.0, 256)
    assert params.stop == ("A", "B")
    assert params.logit_bias == {7: -2.0}


def test_engine_flags_reach_the_configuration(coli: Any, llm: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLI_CONTEXT", "512")
    coli("run", "-q", "--ram", "2GB", "--trunk-bits", "4", "x")
    config = llm.configs[0]
    assert (config.ram, config.trunk_bits, config.context) == ("2GB", 4, 512)


def test_interrupt_keeps_the_text_and_the_facts(coli: Any, llm: Any) -> None:
    llm.pieces = ["Once", KeyboardInterrupt()]
    outcome = coli("run", "x")
    assert (outcome.code, outcome.out) == (130, "Once\n")
    assert "ended by interruption" in outcome.err
    assert llm.cancelled == 1
    assert llm.closed


def test_failed_read_ends_with_its_own_code(coli: Any, llm: Any) -> None:
    llm.pieces = ["Once", ReadError("experts.safetensors: cannot be read at offset 4096")]
    outcome = coli("run", "-q", "x")
    assert (outcome.code, outcome.out) == (6, "Once\n")
    assert outcome.err == "coli: error: experts.safetensors: cannot be read at offset 4096\n"


def test_capacity_error_keeps_its_lines(coli: Any, llm: Any) -> None:
    llm.pieces = [CapacityError("too small:\n  trunk 3 GB")]
    outcome = coli("run", "-q", "x")
    assert outcome.code == 5
    assert outcome.err == "coli: error: too small:\n  trunk 3 GB\n"
    assert "experts" not in coli("run", "x").err  # nothing has happened


def test_progress_is_sparse_without_a_terminal(coli: Any, llm: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("colibri.cli.progress._SPARSE_SECONDS", 0.0)
    llm.progress = [
        SimpleNamespace(
            tokens_done=10, tokens_total=40, layer=3, layers=16, bytes_read=5_000_000,
            seconds=2.0, eta_seconds=6.0,
        )
    ]  # fmt: skip
    line = "prompt 10/40 tokens, layer 3/16, 5.0 MB read, 2.00 s gone, about 6.00 s left\n"
    assert line in coli("run", "x").err
    assert line not in coli("run", "-q", "x").err


def test_without_reads_ahead_there_is_no_line_of_them(coli: Any, llm: Any) -> None:
    outcome = coli("run", "-v", "x")
    assert "disk " in outcome.err
    assert "ahead " not in outcome.err
    assert "approx " not in outcome.err


@pytest.mark.parametrize(
    ("counted", "says"),
    [
        (
            {"approx_tokens": 200, "approx_agreed": 150, "approx_kl": 5.0},
            "approx   75.0 % of 200 tokens checked agree with the exact model, KL 0.0250",
        ),
        (
            {"experts_chosen": 1000, "experts_swapped": 125},
            "approx   12.5 % of the experts swapped for resident ones",
        ),
    ],
)
def test_what_approximate_routing_cost_has_a_line(
    coli: Any, llm: Any, counted: dict[str, Any], says: str
) -> None:
    llm.counted = counted
    outcome = coli("run", "-v", "x")
    assert says in outcome.err
    assert ("those of checking included" in outcome.err) == ("approx_tokens" in counted)


def test_reads_ahead_have_a_line(coli: Any, llm: Any) -> None:
    llm.counted = {
        "prefetch_reads": 1200, "prefetch_useful": 900, "prefetch_wasted_bytes": 3_400_000,
        "lookahead_missing": 2000, "lookahead_right": 1500,
    }  # fmt: skip
    line = "ahead    1,200 experts read ahead, 900 useful, 3.4 MB wasted; 75.0 % of the missing"
    assert line in coli("run", "-v", "x").err


def test_stats_json_holds_the_facts(coli: Any, llm: Any, tmp_path: Path) -> None:
    target = tmp_path / "stats.json"
    assert coli("run", "-q", "--stats-json", str(target), "x").code == 0
    facts = json.loads(target.read_text())
    assert facts["token_ids"] == [101, 102, 103]
    assert facts["finish_reason"] == "stop"
    assert facts["stats"]["misses"] == 3
    assert facts["plan"] == {"budget_bytes": 10**9, "peak_bytes": 9 * 10**8}
    assert list(tmp_path.glob("*.part")) == []


def test_unknown_variable_warns_with_a_near_name(coli: Any, llm: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLI_CONTEXTS", "1")
    outcome = coli("run", "-q", "x")
    assert outcome.code == 0
    assert "COLI_CONTEXTS" in outcome.err
    assert "COLI_CONTEXT?" in outcome.err


def test_model_text_cannot_drive_the_terminal(coli: Any, llm: Any, monkeypatch: Any) -> None:
    import sys

    llm.pieces = ["a\x1b[2Jb\tc\n", "\x9b1m"]
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    out = coli("run", "-q", "x").out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert "b\tc\n" in out


@pytest.mark.parametrize("chat", [[], ["--chat"]])
def test_model_without_tokenizer_is_not_loaded_for_text(
    coli: Any, llm: Any, chat: list[str]
) -> None:
    (llm.path / "tokenizer.json").unlink()
    outcome = coli("run", *chat, "Hello")
    assert outcome.code == 4
    assert "no tokenizer.json" in outcome.err
    assert "--ids" in outcome.err
    assert llm.configs == []
    assert coli("run", "--ids", "1 2").code == 0


def test_run_with_chat_needs_a_template_before_it_loads(coli: Any, llm: Any) -> None:
    (llm.path / "chat_template.jinja").unlink()
    outcome = coli("run", "--chat", "Hello")
    assert outcome.code == 4
    assert "no chat template" in outcome.err
    assert llm.configs == []


def test_an_answer_that_was_cut_off_says_so(coli: Any, llm: Any) -> None:
    llm.finish_reason = "length"
    assert "--max-tokens" in coli("run", "x").err


def test_help_tells_the_defaults(coli: Any) -> None:
    from colibri.sampling import SamplingParams

    text = " ".join(coli("run", "--help").out.split())
    assert f"default: the model's, else {SamplingParams().max_tokens}." in text
    assert f"default: the model's, else {SamplingParams().temperature:g}." in text
    assert f"default: the model's, at most {DEFAULT_CONTEXT}" in text


@pytest.mark.parametrize("command", ["run", "chat"])
def test_endless_input_is_refused(coli: Any, llm: Any, monkeypatch: Any, command: str) -> None:
    monkeypatch.setattr("colibri.cli.prompt.LONGEST_BYTES", 100)
    monkeypatch.setattr("colibri.cli.talk.loop.LONGEST_BYTES", 100)
    outcome = coli(command, "-q", stdin=b"a" * 101)
    assert outcome.code == 2
    assert "standard input" in outcome.err


def test_the_plan_is_held_against_the_run(coli: Any, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    arguments = ("--ids", "1 2 3", "--max-tokens", "20", "--cache-experts", "8", "--seed", "1")
    outcome = coli("run", "-q", "--stats", "--stats-json", str(file), *arguments)
    assert outcome.code == 0
    assert outcome.err.startswith("plan ")
    for name in ("loaded", "peak", "hit rate", "disk per token", "speed"):
        assert f"\n{name} " in outcome.err
    rows = {row["name"]: row for row in json.loads(file.read_text())["outcome"]}
    assert rows["hit rate"]["planned"] == pytest.approx(0.25, abs=1e-6)
    assert 0 < rows["hit rate"]["measured"] < 1
    assert rows["disk per token"]["measured"] > 0
    assert rows["speed"]["planned"] > 0


def test_a_cache_that_gave_memory_back_is_said(coli: Any, llm: Any) -> None:
    llm.counted = {"guard_shrinks": 2, "guard_bytes": 30_000_000}
    assert "to keep it the cache gave 30.0 MB back (2 times)" in coli("run", "x").err
