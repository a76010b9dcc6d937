"""The body of a request: bounded in size and time, JSON, of the form that the endpoint takes."""

from __future__ import annotations

import asyncio
import re
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from colibri.config import ServerConfig
from colibri.server.errors import ApiError, bad_request

T = TypeVar("T")
_PATH = re.compile(r" - at (?:`key` in )?`\$(.*)`$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_ABSENT = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_NULL = re.compile(r"Expected `null`, got `.*`")  # a field that is Unsupported
_VALUE = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)
_DRAINED_BYTES = 64_000_000  # of a body that is too large, so that the client reads the answer


async def read(request: Request, form: type[T], config: ServerConfig) -> T:
    """Raises ApiError."""
    _check_headers(request)
    try:
        async with asyncio.timeout(config.body_timeout):
            data = await _bytes(request, config.max_body)
    except TimeoutError:
        raise ApiError(
            408,
            f"the body did not arrive within {config.body_timeout:g} seconds",
            headers={"connection": "close"},
        ) from None
    return decode(data, form)


def decode(data: bytes, form: type[T]) -> T:
    if not data.strip():
        raise bad_request("the body is empty; a JSON object was expected")
    try:
        return msgspec.json.decode(data, type=form)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body is no valid JSON: {error}") from None
    except RecursionError:
        raise bad_request("the body is nested too deeply") from None


def _invalid(text: str) -> ApiError:
    """msgspec's complaint as ours: "messages[0].role" for "$.messages[0].role"."""
    path = _PATH.search(text)
    at, what = (path[1].lstrip("."), text[: path.start()]) if path else ("", text)
    if found := _UNKNOWN.fullmatch(what):
        param = f"{at}.{found[1]}" if at else found[1]
        return bad_request(f"{param}: not supported here", param, "unsupported_parameter")
    if _NULL.fullmatch(what):
        return bad_request(f"{at}: not supported here", at, "unsupported_parameter")
    if found := _ABSENT.fullmatch(what):
        param = f"{at}.{found[1]}" if at else found[1]
        return bad_request(f"{param}: is missing", param, "missing_required_parameter")
    if found := _VALUE.fullmatch(what):
        return bad_request(f"{at}: {found[1]} is not supported here", at or None, "invalid_value")
    said = what[:1].lower() + what[1:]
    return bad_request(f"{at}: {said}" if at else f"the body: {said}", at or None, "invalid_value")


def _check_headers(request: Request) -> None:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if kind.lower() != "application/json":
        raise ApiError(415, f"content-type {kind[:100]!r}: send application/json")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise ApiError(415, f"content-encoding {coding[:100]!r}: send the body as it is")


async def _bytes(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size <= limit:
                parts.append(part)
            elif size > limit + _DRAINED_BYTES:
                break
    except ClientDisconnect:
        raise ApiError(400, "the client left before its request was whole") from None
    if size > limit:
        raise ApiError(
            413,
            f"the body is larger than {limit} bytes, the most that is taken; --max-body raises it",
            headers={"connection": "close"},
        )
    return b"".join(parts)
