"""A small HTTP client for servers of models: JSON, and server-sent events. Standard library only.

Every error is a ColibriError that names the server; redirects are not followed, so that a key goes
to nobody but whom it was given for.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from colibri.cli.terminal import harmless
from colibri.errors import CapacityError, ColibriError, ConfigError, QueueFullError

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 600.0  # then a server is taken to be gone; ours gives signs of life
_LONGEST_LINE = 16 << 20  # bytes
_LONGEST_BODY = 64 << 20
_SHOWN = 500  # characters of a stranger's error


@dataclass(frozen=True)
class Event:
    """comment: a sign of life that is no data."""

    data: str
    comment: bool = False


class Client:
    """url: with or without a /v1 at its end. api_key: as `config.key_for` has checked it. notice:
    what our server does otherwise than the last request asked."""

    def __init__(self, url: str, api_key: str | None) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        try:
            parts = urlsplit(self.url if "://" in url else f"http://{self.url}")
            port = parts.port
        except ValueError:
            raise ConfigError(f"--attach {url!r}: is no URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"--attach {url!r}: a URL such as http://127.0.0.1:8000 expected")
        self._host, self._port, self._path = parts.hostname, port, parts.path
        self._tls = parts.scheme == "https"
        self.notice = ""
        self._headers = {"Content-Type": "application/json", "User-Agent": "coli-chat"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def get(self, path: str) -> dict[str, Any]:
        with self._exchange("GET", path, None) as response:
            return self._object(response)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._exchange("POST", path, body) as response:
            return self._object(response)

    def events(self, path: str, body: dict[str, Any]) -> Iterator[Event]:
        """Until the server ends them. Closing the iterator hangs up, which ends the answer."""
        with self._exchange("POST", path, body) as response:
            held: list[str] = []
            while line := response.readline(_LONGEST_LINE + 1):
                if len(line) > _LONGEST_LINE:
                    raise ColibriError(f"{self.url}: an event of more than {_LONGEST_LINE} bytes")
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                if text.startswith(":"):
                    yield Event(text[1:].strip(), comment=True)
                elif text.startswith("data:"):
                    held.append(text[5:].removeprefix(" "))
                elif not text and held:
                    yield Event("\n".join(held))
                    held.clear()

    @contextmanager
    def _exchange(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = self._connection()
        try:
            connection.connect()
            connection.sock.settimeout(_SILENCE_SECONDS)
            data = None if body is None else json.dumps(body, allow_nan=False).encode()
            connection.request(method, self._path + path, data, self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise self._refusal(response)
            self.notice = harmless(response.getheader("x-colibri-notice", ""))[:_SHOWN]
            yield response
        except TimeoutError:
            raise ColibriError(f"{self.url}: gives no sign of life") from None
        except (OSError, http.client.HTTPException) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ColibriError(
                f"{self.url}: {harmless(said)[:_SHOWN]}; is a server running there (`coli serve`)?"
            ) from None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=_CONNECT_SECONDS, context=context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=_CONNECT_SECONDS)

    def _object(self, response: http.client.HTTPResponse) -> dict[str, Any]:
        return self.parsed(response.read(_LONGEST_BODY))

    def parsed(self, data: bytes | str) -> dict[str, Any]:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise ColibriError(f"{self.url}: answers with something that is no JSON object")
        return value

    def _refusal(self, response: http.client.HTTPResponse) -> ColibriError:
        status, said = response.status, response.read(_LONGEST_BODY)
        try:
            error = json.loads(said)["error"]
        except (ValueError, KeyError, TypeError, RecursionError):
            error = None
        wait = response.getheader("retry-after", "")
        return self.refusal(error, status, float(wait) if wait.isdecimal() else 1.0)

    def refusal(self, error: Any, status: int = 500, wait_seconds: float = 1.0) -> ColibriError:
        """error: as OpenAI's API puts it, whatever it is."""
        found = error if isinstance(error, dict) else {"message": error or f"HTTP status {status}"}
        text = f"{self.url}: {harmless(str(found.get('message')))[:_SHOWN]}"
        if status in (401, 403):
            return ConfigError(f"{text} (--api-key or COLI_API_KEY gives the key)")
        if found.get("code") == "context_length_exceeded":
            return CapacityError(text)
        if status == 429:
            return QueueFullError(f"{text}; try again in {wait_seconds:.0f} s", wait_seconds)
        return ConfigError(text) if 400 <= status < 500 else ColibriError(text)
