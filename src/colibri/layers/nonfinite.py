"""What a layer computed may be no number: then there is no choice to make, and the answer ends."""

from types import TracebackType

from colibri.errors import ColibriError


class named:
    """Around a kernel that chooses by scores and refuses those that are not finite (ValueError).

    A class, since every layer of every token enters one: a generator costs five times as much.
    """

    __slots__ = ("_layer",)

    def __init__(self, layer: int) -> None:
        self._layer = layer

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, ValueError):
            raise ColibriError(
                f"layer {self._layer}, {error}: the model's files or a kernel are at fault; "
                "check the files, or report it with the prompt"
            ) from error
