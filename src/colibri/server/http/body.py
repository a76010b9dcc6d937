"""The body of a request: bounded in size and time, JSON, of the form that the endpoint takes."""

from __future__ import annotations

import asyncio
import codecs
import re
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from colibri.config import ServerConfig
from colibri.server.http.choices import choices
from colibri.server.http.errors import ApiError, bad_request
from colibri.words import either

T = TypeVar("T")
_PATH = re.compile(r" - at (`key` in )?`\$(.*)`$", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")  # of such a path; the last: some entry of a map
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_ABSENT = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_NULL = re.compile(r"Expected `null`, got `.*`")  # a field that is Unsupported
_VALUE = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)
_LONGEST_KEY = 80  # characters of a client's own key in a field's name
_SEARCHED_BYTES = 1_000_000  # of a body: in a larger one only the map is named, not the entry
_DRAINED_BYTES = 64_000_000  # of a body that is too large, so that the client reads the answer


async def read(request: Request, form: type[T], config: ServerConfig) -> T:
    """Raises ApiError."""
    _check_headers(request)
    _check_promised(request, config.max_body)
    try:
        async with asyncio.timeout(config.body_timeout):
            data = await _bytes(request, config.max_body)
    except TimeoutError:
        raise ApiError(
            408,
            f"the body did not arrive within {config.body_timeout:g} s",
            headers={"connection": "close"},
        ) from None
    return decode(data, form)


def decode(data: bytes, form: type[T]) -> T:
    data = data.removeprefix(codecs.BOM_UTF8)  # of a file that an editor of Windows wrote
    if not data.strip():
        raise bad_request("the body is empty; a JSON object was expected")
    try:
        return msgspec.json.decode(data, type=form)
    except msgspec.ValidationError as error:
        raise _invalid(form, *_named(data, form, str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body is no valid JSON: {error}") from None
    except RecursionError:
        raise bad_request("the body is nested too deeply") from None


def _named(data: bytes, form: type[Any], text: str) -> tuple[str, str]:
    """Where msgspec's complaint is, as "messages[0].role" for "$.messages[0].role", and what it is.
    Of maps it does not say which entry is to blame, or whose key: `_culprit` finds out."""
    path = _PATH.search(text)
    if path is None:
        return "", text
    of_key, what = path[1] is not None, text[: path.start()]
    at, steps, whole = "", list[Any](), None
    for step in _STEP.finditer(f"{path[2]}[...]" if of_key else path[2]):
        name, index = step[1], step[2]
        if name is None and index is None:
            if len(data) > _SEARCHED_BYTES:
                break
            whole = whole or _plain(data)
            name = None if whole is None else _culprit(whole, steps, form, text)
            if name is None:
                break
        steps.append(name if index is None else int(index))
        at += step[0] if index is not None else f".{name[:_LONGEST_KEY]}" if name else ".''"
    return at.lstrip("."), f"as a key: {what[:1].lower()}{what[1:]}" if of_key else what


def _plain(data: bytes) -> Any:
    """None where no form fits: of a number beyond every float only the map is named."""
    try:
        return msgspec.json.decode(data)
    except msgspec.ValidationError:
        return None


def _culprit(whole: Any, steps: list[Any], form: type[Any], text: str) -> str | None:
    """The key of the first entry that makes `form` complain so, of the map that `steps` lead to.
    None: of two fields by one name only the last is seen here, and the other is to blame.

    Each half of what is left is read alone, which costs no more than to read all of it twice."""
    body = {steps[0]: whole[steps[0]]}  # what else is wrong or missing comes later
    entries: Any = body
    try:
        for step in steps:
            entries = entries[step]
        left = list(entries.items())
    except (LookupError, TypeError, AttributeError):  # a field that is there twice
        return None

    def complains(some: list[tuple[str, Any]]) -> bool:
        entries.clear()
        entries.update(some)
        try:
            msgspec.json.decode(msgspec.json.encode(body), type=form)
        except msgspec.ValidationError as error:
            return str(error) == text
        return False

    while len(left) > 1:
        half = left[: len(left) // 2]
        left = half if complains(half) else left[len(left) // 2 :]
    found = left[0][0] if left and complains(left) else None
    entries.update(left)
    return found


def _invalid(form: type[Any], at: str, what: str) -> ApiError:
    if found := _UNKNOWN.fullmatch(what):
        param = f"{at}.{found[1]}" if at else found[1]
        return bad_request(f"{param}: not supported here", param, "unsupported_parameter")
    if _NULL.fullmatch(what):
        return bad_request(f"{at}: not supported here", at, "unsupported_parameter")
    if found := _ABSENT.fullmatch(what):
        param = f"{at}.{found[1]}" if at else found[1]
        return bad_request(f"{param}: is missing", param, "missing_required_parameter")
    if found := _VALUE.fullmatch(what):
        known = choices(form, at)
        which = f"; use {either(known)}" if known else ""
        what = f"{at}: {found[1]} is not supported here{which}"
        return bad_request(what, at or None, "invalid_value")
    said = what[:1].lower() + what[1:]
    return bad_request(f"{at}: {said}" if at else f"the body: {said}", at or None, "invalid_value")


def _check_headers(request: Request) -> None:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if kind.lower() != "application/json":
        raise ApiError(415, f"content-type {kind[:100]!r}: send application/json")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise ApiError(415, f"content-encoding {coding[:100]!r}: send the body as it is")


def _check_promised(request: Request, limit: int) -> None:
    """Of a client that asks before it sends: to begin reading would tell it to go on."""
    asked = request.headers.get("expect", "").lower() == "100-continue"
    promised = request.headers.get("content-length", "")
    if asked and promised.isdecimal() and int(promised) > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413,
        f"the body is larger than {limit} bytes, the most that is taken; --max-body raises it",
        headers={"connection": "close"},
    )


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
        raise _too_large(limit)
    return b"".join(parts)
