"""Numbers with their nouns, as every message has them."""


def count(number: int, noun: str, plural: str | None = None) -> str:
    """1 token, 1,234 tokens."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_are(number: int, noun: str) -> str:
    """1 layer is, 2 layers are."""
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"
