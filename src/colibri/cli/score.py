"""`coli score`: which of several given answers a model finds likely."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.cli import figures, terminal
from colibri.cli.choices import table
from colibri.cli.grouping import Grouped
from colibri.cli.loading import check_speaks, load
from colibri.cli.options import chat_options, engine_options, take_chat, take_config, verbose_option
from colibri.cli.prompt import LONGEST_BYTES, read_prompt, valid_text
from colibri.errors import ConfigError

if TYPE_CHECKING:
    from colibri.llm import LLM
    from colibri.llm.scores import Normalize, Scores
    from colibri.text.chat import ChatOptions


@click.command("score", cls=Grouped)
@click.argument("options", nargs=-1, required=True, metavar="ANSWER ANSWER ...")
@click.option(
    "--state",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help='Text that the question is about; "-" reads standard input.',
)
@click.option("--question", metavar="TEXT", help="What the options answer.")
@click.option(
    "--raw",
    is_flag=True,
    help="Take state and question as they are, followed by the option, without the model's chat "
    "template. An option then mostly begins with a blank.",
)
@click.option(
    "--normalize",
    type=click.Choice(["sum", "mean"]),
    default="sum",
    show_default=True,
    help="Compare the log-probabilities of whole options, or their mean a token.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="No facts on stderr, only warnings and errors.")
@verbose_option
@chat_options
@engine_options
def command(
    options: tuple[str, ...],
    state: Path | None,
    question: str | None,
    raw: bool,
    normalize: Normalize,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **flags: Any,
) -> None:
    """Say how likely each ANSWER (2 to 64) is as the answer to a question.

    The question is read once, the model begins its own answer, and each option is held against the
    place where that answer would name one of them.
    docs/serving.md explains the numbers.
    """
    config, chat = take_config(flags), take_chat(flags)
    options = tuple(valid_text(option, "an option") for option in options)
    context = _context(state, question)
    if raw and chat:
        raise ConfigError("--thinking and --reasoning-effort do not go with --raw")
    check_speaks(config.model, chat=not raw)
    from colibri.llm.scores import check_options

    check_options(options, normalize)
    with load(config, quiet=quiet, verbose=verbose).llm as llm:
        scores = _scores(llm, context, options, normalize, None if raw else chat)
    for warning in scores.warnings:
        terminal.say(f"coli: warning: {warning}")
    terminal.write_answer(_json(scores) if as_json else table(scores))
    if not quiet:
        terminal.say_fact(
            f"{figures.count(scores.read_tokens, 'token')} read, {scores.cached_tokens} of "
            f"{scores.prompt_tokens} known before"
        )


def _context(state: Path | None, question: str | None) -> str:
    parts = [] if state is None else [_read(state)]
    if question is not None:
        parts.append(valid_text(question, "--question"))
    if not any(parts):
        raise ConfigError("no question; give --question, --state or both")
    return "\n\n".join(parts)


def _read(state: Path) -> str:
    if str(state) == "-":
        return read_prompt("-")
    try:
        with open(state, "rb") as file:
            data = file.read(LONGEST_BYTES + 1)
        if len(data) > LONGEST_BYTES:
            raise ConfigError(f"--state {state}: more than {LONGEST_BYTES >> 20} MiB")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"--state {state}: cannot read it: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"--state {state}: not UTF-8 (at byte {error.start})") from None


def _scores(
    llm: LLM,
    context: str,
    options: tuple[str, ...],
    normalize: Normalize,
    chat: ChatOptions | None,
) -> Scores:
    if chat is None:
        return llm.score_choices(context, options, normalize=normalize)
    messages = [{"role": "user", "content": context}]
    # Reasoning would stand between the question and the option.
    wish: ChatOptions = {"thinking": False, **chat}
    return llm.score_choices(None, options, normalize=normalize, messages=messages, **wish)


def _json(scores: Scores) -> str:
    import json

    document = {"answer": scores.best.option, **dataclasses.asdict(scores)}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
