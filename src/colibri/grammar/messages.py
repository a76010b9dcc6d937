"""What the compiler says, for a person to read."""

import re

_LONGEST = 300
_SOURCE_LINE = re.compile(r"(?:\d+ \|.*|[\^~| -]*)")
_MEANING = (
    ("oneOf constraints", "'oneOf': its alternatives are not provably exclusive; use anyOf"),
    ("NoExtension", "no text fits it"),
    ("fuel", "too complex: larger repetitions or more alternatives than can be compiled"),
    ("too many expressions", "too complex: repetitions within repetitions"),
    ("too big", "too large"),
    ("too many digits", "'multipleOf' has more digits than can be followed"),
    ("number of nested parenthe", "a bound has more zeros after the point than can be followed"),
    ("Too many items", "too complex: more repetitions or alternatives than can be followed"),
    ("items; max is", "too complex: more alternatives at one place than can be followed"),
    (
        "Unable to determine if regex is empty",
        "too complex: regexes and lengths that must all hold",
    ),
)


def explained(message: str) -> str:
    """The compiler's message, without its state and advice on its options."""
    for sign, meaning in _MEANING:
        if sign in message:
            return meaning
    lines = [line.strip() for line in re.split(r"<state>|<non-verbose/>", message)[0].splitlines()]
    text = " ".join(line for line in lines if not _SOURCE_LINE.fullmatch(line))
    text = re.sub(r"^.*regex parse error: ", "", text)
    text = re.sub(r"^(?:at )?(\d+)\((\d+)\): ", r"line \1, column \2: ", text).strip()
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return text or "refused"
