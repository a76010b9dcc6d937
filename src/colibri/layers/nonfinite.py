"""What a layer computed may be no number: then there is no choice to make, and the answer ends."""

from collections.abc import Iterator
from contextlib import contextmanager

from colibri.errors import ColibriError


@contextmanager
def named(layer: int) -> Iterator[None]:
    """Around a kernel that chooses by scores and refuses those that are not finite (ValueError)."""
    try:
        yield
    except ValueError as error:
        raise ColibriError(
            f"layer {layer}, {error}: the model's files or a kernel are at fault; check the files, "
            "or report it with the prompt"
        ) from error
