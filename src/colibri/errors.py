"""What can go wrong, by kind. A message says what, where (file, tensor, field) and what to do."""


class ColibriError(Exception):
    """The base of every error that is meant for a person to read."""


class ConfigError(ColibriError):
    """A flag, environment variable, argument or field of a model's config cannot be honoured.

    `field` names the argument if it is one of a request; a server's clients are told it.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnsupportedModelError(ColibriError):
    """colibri does not implement this type or variant of model."""


class ContainerError(ColibriError):
    """A model file is missing, damaged or contradicts another."""


class ReadError(ContainerError):
    """A read failed, and failed again when retried; the model itself may be in order."""


class TokenizerError(ColibriError):
    """A tokenizer or chat template is missing, damaged or refuses its input."""


class CapacityError(ColibriError):
    """Memory, disk space or context length does not suffice; the message has both numbers."""


class GrammarError(ColibriError):
    """A structure cannot be enforced: its schema, grammar or regex is wrong, not supported or too
    large."""


class Cancelled(ColibriError):
    """The work was cancelled before there was a result. (An answer keeps what was made of it, and
    ends with the finish_reason "cancelled".)"""


class QueueFullError(ColibriError):
    """More requests wait than `max_queue` allows.

    `retry_after_seconds` is how long it probably takes until there is a place.
    """

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class DeadlineError(ColibriError):
    """The deadline of a request passed before its answer was whole."""


class StalledError(ColibriError):
    """The model made no progress for `stall_timeout` seconds, most likely because a read hangs."""
