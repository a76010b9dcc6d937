"""What can go wrong, by kind. A message says what, where (file, tensor, field) and what to do."""


class ColibriError(Exception):
    """Base of every error that is meant for a person to read."""


class ConfigError(ColibriError):
    """A flag, environment variable, argument or model config field that cannot be honoured.

    field: the argument's name, where it is one of a request: a server's clients are told it.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnsupportedModelError(ColibriError):
    """A model type or variant that colibri does not implement."""


class ContainerError(ColibriError):
    """A model file that is missing, damaged or contradicts another."""


class ReadError(ContainerError):
    """A read that failed after its retries; the model itself may be in order."""


class TokenizerError(ColibriError):
    """A tokenizer or chat template that is missing, damaged or refuses its input."""


class CapacityError(ColibriError):
    """Memory, disk space or context length that does not suffice; names both numbers."""


class GrammarError(ColibriError):
    """A structure asked of an answer that cannot be enforced: a schema, grammar or regex that is
    wrong, not supported or too large."""


class Cancelled(ColibriError):
    """The caller asked to stop."""


class QueueFullError(ColibriError):
    """More requests wait than may."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds  # until a place is likely free


class DeadlineError(ColibriError):
    """The request's deadline passed before its answer was whole."""


class StalledError(ColibriError):
    """The model made no progress for too long: a read that hangs, most likely."""
