"""Load the model a command asks for, and say what was loaded."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.cli import figures, terminal
from colibri.cli.progress import load_bar
from colibri.config import EngineConfig
from colibri.errors import TokenizerError
from colibri.words import coli

if TYPE_CHECKING:
    from colibri.llm import LLM


@dataclass(frozen=True)
class Loaded:
    llm: LLM
    seconds: float


class _Warnings(logging.Handler):
    """What the library logs, as lines of this command."""

    def emit(self, record: logging.LogRecord) -> None:
        terminal.say(f"coli: {record.levelname.lower()}: {record.getMessage()}")


def show_warnings() -> None:
    logger = logging.getLogger("colibri")
    logger.handlers = [_Warnings()]
    logger.propagate = False
    logger.setLevel(logging.WARNING)


def check_speaks(named: str | None, *, chat: bool) -> None:
    """That the model takes text, before its weights are loaded, which may take minutes."""
    from colibri.cli.paths import model_path, read_config
    from colibri.container.files import has_file
    from colibri.models.registry import family_for
    from colibri.text.chat import ChatFormat

    path = model_path(named)
    config = read_config(path)
    family_for(config)
    if not has_file(path, "tokenizer.json"):
        raise TokenizerError(
            f"{path}: has no tokenizer.json, so it neither reads nor writes text; add the file, or "
            f'give token ids: {coli("run", named)} --ids "1 2 3"'
        )
    if chat and ChatFormat.load(path, str(config.get("model_type"))) is None:
        raise TokenizerError(
            f"{path}: has no chat template (chat_template.jinja or tokenizer_config.json); "
            f"`{coli('run', named)}` takes a prompt as it is"
        )


def load(config: EngineConfig, *, quiet: bool, verbose: bool = False, text: bool = True) -> Loaded:
    """The caller closes `llm`. verbose: the whole plan is shown. text: whether more than token ids
    is needed."""
    show_warnings()
    logging.getLogger("colibri.prompts").setLevel(logging.ERROR if quiet else logging.NOTSET)
    from colibri.cli.paths import model_path
    from colibri.llm import LLM

    model_path(config.model)
    begin = time.perf_counter()
    with load_bar(quiet) as on_load:
        llm = LLM.from_config(config, text=text, on_load=on_load)
    seconds = time.perf_counter() - begin
    if not quiet:
        _describe(llm, seconds, verbose)
    return Loaded(llm, seconds)


def _describe(llm: LLM, seconds: float, verbose: bool) -> None:
    plan = llm.plan
    memory = f"{figures.size(plan.peak_bytes)} of a budget of {figures.size(plan.budget_bytes)}"
    terminal.say_fact(f"{llm.load_line}; {memory} (loaded in {figures.duration(seconds)})")
    for line in plan.lines() if verbose else [f"note: {note}" for note in plan.notes]:
        terminal.say_fact(line)
