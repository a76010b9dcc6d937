"""Numbers with their nouns, as every message has them, and commands that a message advises."""

import shlex


def count(number: int, noun: str, plural: str | None = None) -> str:
    """1 token, 1,234 tokens."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_are(number: int, noun: str, plural: str | None = None) -> str:
    """1 layer is, 2 layers are."""
    return f"{count(number, noun, plural)} {are(number)}"


def are(number: int) -> str:
    """Where a noun stands between: 1 of 2 files is, 2 of 3 files are."""
    return "is" if number == 1 else "are"


def coli(words: str, model: str | None) -> str:
    """coli run --model DIR: for the model as it was named; without a name the embedded one."""
    return f"coli {words}" + ("" if model is None else f" --model {shlex.quote(model)}")
