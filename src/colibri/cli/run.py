"""`coli run`: one prompt, one answer; text to stdout, facts to stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import report, terminal
from colibri.cli.generation import Answer, OnProgress, Start, write_stream
from colibri.cli.grouping import Grouped
from colibri.cli.loading import Loaded, check_speaks, load
from colibri.cli.options import (
    chat_options,
    engine_options,
    sampling_options,
    take_chat,
    take_config,
    take_sampling,
    verbose_option,
    with_given,
)
from colibri.cli.prompt import parse_ids, read_prompt, valid_text
from colibri.cli.structure import cut_off, is_beginning
from colibri.errors import ColibriError, ConfigError

if TYPE_CHECKING:
    from colibri.answer import Chunk
    from colibri.llm import LLM
    from colibri.planner.outcome import Row
    from colibri.runtime import Stats
    from colibri.sampling import SamplingParams
    from colibri.text.chat import ChatOptions

    Closing = Callable[[Stats, Answer, int], list[str]]

_WITH_TEXT = frozenset(("stop", "structure"))  # of SamplingParams, also of an answer in token ids


@click.command("run", cls=Grouped)
@click.argument("prompt", required=False)
@click.option("--chat", is_flag=True, help="Put the prompt through the model's chat template.")
@click.option("--system", metavar="TEXT", help="System message; only with --chat.")
@click.option("--ids", is_flag=True, help="The prompt is token ids, and so is the output.")
@click.option("-q", "--quiet", is_flag=True, help="No facts on stderr, only warnings and errors.")
@verbose_option
@click.option("--stats", is_flag=True, help="Compare the plan with what happened (takes a second).")
@click.option("--stats-json", type=click.Path(path_type=Path), help="Also write the facts here.")
@chat_options
@sampling_options
@engine_options
def command(
    prompt: str | None,
    chat: bool,
    system: str | None,
    ids: bool,
    quiet: bool,
    verbose: bool,
    stats: bool,
    stats_json: Path | None,
    **flags: Any,
) -> None:
    """Write on from PROMPT, which is taken as it is. "-" reads it from standard input.

    The answer goes to stdout as it is made, reasoning before it to stderr. Without --model the
    small embedded model writes. Ctrl-C stops it.
    """
    config, given, options = take_config(flags), take_sampling(flags), take_chat(flags)
    _check_combination(chat, system, ids, options)
    system = system and valid_text(system, "--system")
    text = read_prompt(prompt)
    request = parse_ids(text) if ids else text
    if stats_json is not None:
        from colibri.container.output import check_writable

        check_writable("--stats-json", stats_json)
    if not ids:
        check_speaks(config.model, chat=chat)
    speaks = not ids or not _WITH_TEXT.isdisjoint(given)
    loaded = load(config, quiet=quiet, verbose=verbose, text=speaks)
    closing = report.closing_lines if verbose else report.closing_line
    with loaded.llm as llm:
        params = with_given(llm.default_params, given)
        start = _chat(llm, text, system, params, options) if chat else _raw(llm, request, params)
        finished = _answer(
            loaded, start, None if quiet else closing, ids=ids, compare=stats, stats_json=stats_json
        )
    if is_beginning(finished, params.structure):
        raise ColibriError(cut_off(finished))


def _check_combination(chat: bool, system: str | None, ids: bool, options: ChatOptions) -> None:
    if chat and ids:
        raise ConfigError("--chat and --ids do not go together: a chat template makes text")
    if system is not None and not chat:
        raise ConfigError("--system needs --chat")
    if options and not chat:
        raise ConfigError("--thinking and --reasoning-effort need --chat")


def _raw(llm: LLM, prompt: str | list[int], params: SamplingParams) -> Start:
    def start(on_progress: OnProgress | None) -> Iterator[Chunk]:
        return llm.stream(prompt, params, on_progress=on_progress)

    return start


def _chat(
    llm: LLM, text: str, system: str | None, params: SamplingParams, options: ChatOptions
) -> Start:
    messages = [{"role": "system", "content": system}] if system is not None else []
    messages.append({"role": "user", "content": text})

    def start(on_progress: OnProgress | None) -> Iterator[Chunk]:
        return llm.stream_chat(messages, params, on_progress=on_progress, **options)

    return start


def _answer(
    loaded: Loaded,
    start: Start,
    closing: Closing | None,
    *,
    ids: bool,
    compare: bool,
    stats_json: Path | None,
) -> Answer:
    llm, answer, before = loaded.llm, Answer(), loaded.llm.stats()
    first = before

    def mark() -> None:
        nonlocal first
        first = llm.stats()

    answer.on_first_token = mark
    try:
        write_stream(start, answer, quiet=closing is None, as_ids=ids)
    finally:
        # Also after Ctrl-C or a failed read: what did happen is worth knowing.
        if answer.token_ids:
            terminal.write_answer("\n")
        stats = report.since(llm.stats(), before)
        if closing is not None and stats.prefill_tokens:
            for line in closing(stats, answer, llm.plan.budget_bytes):
                terminal.say_fact(line)
        rows = _compare(llm, stats, first) if compare and answer.token_ids else None
        if compare and closing is None:
            terminal.say(f"answer   {report.ended(answer)}")
        if stats_json is not None:
            report.write_json(stats_json, llm, stats, answer, loaded.seconds, rows)
    return answer


def _compare(llm: LLM, stats: Stats, first: Stats) -> list[Row]:
    """Said also with --quiet: it was asked for."""
    from colibri.cli import outcome

    rows = outcome.outcome_rows(llm, stats, report.since(llm.stats(), first))
    for line in outcome.lines(rows):
        terminal.say(line)
    return rows
