"""What a layer computed may be no number: then there is no choice to make, and the answer ends."""

from colibri.errors import ColibriError


def not_finite(layer: int, error: ValueError) -> ColibriError:
    """Of a kernel that chooses by scores and refuses those that are not finite."""
    return ColibriError(
        f"layer {layer}, {error}: the model's files or a kernel are at fault; "
        "check the files, or report it with the prompt"
    )
