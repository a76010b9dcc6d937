"""What token ids must be."""

import operator
from collections.abc import Sequence as Ids

from colibri.errors import CapacityError, ColibriError, ConfigError


def whole_numbers(token_ids: Ids[int]) -> list[int]:
    """Token ids as Python's own integers."""
    try:
        return [operator.index(i) for i in token_ids]
    except TypeError:
        raise ColibriError("a prompt is text, or a sequence of whole numbers (token ids)") from None


def check_ids(token_ids: Ids[int], vocab_size: int, limit: int) -> None:
    """Refuse an empty prompt, ids that are not the model's, and more tokens than `limit`."""
    if len(token_ids) == 0:
        raise ConfigError("the prompt is empty: give at least one token")
    if len(token_ids) > limit:
        raise CapacityError(
            f"the prompt has {len(token_ids)} tokens, and the context leaves room for {limit}: "
            "shorten it, or raise --context"
        )
    low, high = min(token_ids), max(token_ids)
    if low < 0 or high >= vocab_size:
        raise ConfigError(
            f"token id {low if low < 0 else high} is outside the model's vocabulary "
            f"0..{vocab_size - 1}"
        )
