"""Scores of closed answers as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colibri.cli import figures, terminal

if TYPE_CHECKING:
    from colibri.llm.scores import Scores

_SHOWN = 40  # characters of an option


def table(scores: Scores) -> str:
    lines = [f"  {'p':>7}{'log p':>10}{'a token':>10}{'tokens':>8}  option"]
    for choice in scores.choices:
        mark = "*" if choice is scores.best else " "
        shown = choice.option if len(choice.option) <= _SHOWN else choice.option[:_SHOWN] + "..."
        numbers = f"{choice.logprob:>10.3f}{choice.mean_logprob:>10.3f}{choice.tokens:>8}"
        lines.append(f"{mark} {figures.share(choice.p, 1):>7}{numbers}  {terminal.harmless(shown)}")
    return "\n".join(lines) + f"\nentropy {scores.entropy:.3f} (0 sure, 1 all alike)\n"
