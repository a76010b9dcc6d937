"""How hard a model shall think, for models that have fewer levels than one can ask for."""

from dataclasses import dataclass

from colibri.errors import ConfigError

# What may be asked, in order; "none" is no thinking.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_RANK = {"minimal": 0, "low": 1, "medium": 2, "high": 3, "xhigh": 4, "max": 4}

# What a family was trained on, in its templates' spelling.
_LEVELS = {
    "glm_moe_dsa": ("Low", "Medium", "High", "Max"),
    "glm5_next": ("Low", "High", "Max"),
}


@dataclass(frozen=True)
class Effort:
    """value: of the template's reasoning_effort, None to leave it out. note: what was replaced."""

    value: str | None = None
    off: bool = False
    note: str = ""


def check_effort(asked: str | None) -> None:
    if asked is not None and asked not in EFFORTS:
        raise ConfigError(f"reasoning_effort is {asked!r}; one of {', '.join(EFFORTS)} expected")


def levels_of(model_type: str, template: str) -> tuple[str, ...]:
    """What may be asked of this model, less "none"; empty where its template has no levels."""
    if "reasoning_effort" not in template:
        return ()
    own = _LEVELS.get(model_type)
    return EFFORTS[1:] if own is None else tuple(level.lower() for level in own)


def effort_for(asked: str | None, model_type: str, template: str) -> Effort:
    """Of the levels the model has the nearest, the higher of two."""
    if asked is None:
        return Effort()
    if asked == "none":
        return Effort(off=True)
    if "reasoning_effort" not in template:
        return Effort(note=f"reasoning effort {asked}: this model has no levels of it")
    levels = _LEVELS.get(model_type)
    if levels is None:
        return Effort(asked)  # the template's own words are not known: it is taken at its word
    value = min(levels, key=lambda level: _distance(level, asked))
    note = f"reasoning effort {asked}: the nearest that this model has is {value}"
    return Effort(value, note="" if value.lower() == asked else note)


def _distance(level: str, asked: str) -> tuple[int, int]:
    gap = _RANK[level.lower()] - _RANK[asked]
    return abs(gap), -gap
