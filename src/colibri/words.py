"""Numbers with their nouns, as every message has them."""


def count(number: int, noun: str, plural: str | None = None) -> str:
    """1 token, 1,234 tokens."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_are(number: int, noun: str, plural: str | None = None) -> str:
    """1 layer is, 2 layers are."""
    return f"{count(number, noun, plural)} {are(number)}"


def are(number: int) -> str:
    """Where a noun stands between: 1 of 2 files is, 2 of 3 files are."""
    return "is" if number == 1 else "are"
