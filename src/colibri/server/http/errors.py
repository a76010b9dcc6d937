"""What a client gets for an error: the one table from our classes to statuses, and the two
envelopes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from colibri import errors
from colibri.container.jsonfile import encode_json
from colibri.errors import ColibriError
from colibri.server import log
from colibri.server.http.places import without_places

# Fields whose keys are texts of the client's.
_MAPS = ("chat_template_kwargs", "logit_bias", "metadata", "schema")


class ApiError(ColibriError):
    """A refusal by the server itself. `param`: the field of the request that is to blame."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    def openai(self) -> bytes:
        return encode_json({"error": {**self._said, "param": self.param, "code": self.code}})

    def anthropic(self) -> bytes:
        return encode_json({"type": "error", "error": self._said})

    def without_places(self, folders: Iterable[str]) -> ApiError:
        """As a client may have it."""
        said = without_places(self.message, folders)
        return ApiError(self.status, said, param=self.param, code=self.code, headers=self.headers)

    @property
    def logged(self) -> str:
        """For the log, which has no texts of clients: a refusal of a body may quote it."""
        if self.status not in (400, 404):
            return self.message
        head, _, _ = (self.param or "").partition(".")
        where = head if head in _MAPS else self.param
        said = self.code or self._said["type"]
        return said if where is None else f"{said} ({where})"

    @property
    def _said(self) -> dict[str, Any]:
        return {"message": self.message, "type": TYPES.get(self.status, "api_error")}


# The first class that matches decides, so a subclass stands before its base.
STATUS: tuple[tuple[type[BaseException], int, str | None], ...] = (
    (errors.QueueFullError, 429, "queue_full"),
    (errors.DeadlineError, 504, "deadline"),
    (errors.StalledError, 504, "stalled"),
    (errors.GrammarError, 400, "invalid_grammar"),
    (errors.ConfigError, 400, None),
    (errors.TokenizerError, 400, None),
    (errors.CapacityError, 400, "context_length_exceeded"),
    (errors.Cancelled, 503, "cancelled"),
    (MemoryError, 503, "out_of_memory"),
)
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    409: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def as_api_error(error: BaseException) -> ApiError:
    """Whatever went wrong, as the client gets it; of what nobody foresaw the place is logged."""
    if isinstance(error, ApiError):
        return error
    status, code = status_of(type(error))
    if status != 500:
        message = str(error) or "out of memory"
        param = getattr(error, "field", None)
        return ApiError(status, message, param=param, code=code, headers=_headers(error))
    if isinstance(error, ColibriError):
        return ApiError(500, str(error))
    log.fault("internal error", error)
    return ApiError(500, f"internal error ({type(error).__name__}); the server's log says more")


def status_of(kind: type[BaseException]) -> tuple[int, str | None]:
    """The status of an error of this class, and the code by which clients know it."""
    found = (row[1:] for row in STATUS if issubclass(kind, row[0]))
    return next(found, (500, None))


def _headers(error: BaseException) -> dict[str, str]:
    if not isinstance(error, errors.QueueFullError):
        return {}
    return {"retry-after": str(max(1, math.ceil(error.retry_after_seconds)))}
