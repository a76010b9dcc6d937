"""Numbers with their nouns, as every message has them, and commands that a message advises."""

import math
import shlex
from collections.abc import Sequence


def count(number: int, noun: str, plural: str | None = None) -> str:
    """1 token, 1,234 tokens."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_are(number: int, noun: str, plural: str | None = None) -> str:
    """1 layer is, 2 layers are."""
    return f"{count(number, noun, plural)} {are(number)}"


def are(number: int) -> str:
    """Where a noun stands between: 1 of 2 files is, 2 of 3 files are."""
    return "is" if number == 1 else "are"


def either(names: Sequence[str]) -> str:
    """a; a or b; a, b or c."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def coli(words: str, model: str | None) -> str:
    """coli run --model DIR: for the model as it was named; without a name the embedded one."""
    return f"coli {words}" + ("" if model is None else f" --model {shlex.quote(model)}")


def three_digits(value: float) -> str:
    """0.0881, 8.40, 307, 1,540: of an estimate, which means no more than that."""
    if value <= 0:
        return "0"
    decimals = 2 - math.floor(math.log10(value))
    return f"{round(value, decimals):,.{max(0, decimals)}f}"
