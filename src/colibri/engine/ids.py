"""What token ids must be."""

import operator
from collections.abc import Sequence as Ids

from colibri.engine.request import Request
from colibri.errors import CapacityError, ColibriError, ConfigError
from colibri.sampling import check_bias
from colibri.words import count


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
            f"the prompt has {count(len(token_ids), 'token')}, and the context leaves room for "
            f"{limit}: shorten it, or raise --context"
        )
    low, high = min(token_ids), max(token_ids)
    if low < 0 or high >= vocab_size:
        raise ConfigError(
            f"token id {low if low < 0 else high} is outside the model's vocabulary "
            f"0..{vocab_size - 1}"
        )


def check_request(request: Request, vocab_size: int, context: int) -> None:
    """Before a prompt is read in vain: its tokens, those of its branches, its bias."""
    longest = max((len(branch) for branch in request.branches), default=0)
    room = longest or min(1, request.most_tokens)
    check_ids(request.prompt_ids, vocab_size, context - room)
    for branch in request.branches:
        check_ids(branch, vocab_size, context)
    check_bias(request.params, vocab_size)
