"""Settings of `coli serve`, in addition to the engine's: the same flags, variables and file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

from colibri.config.choices import OnOff
from colibri.config.settings import BY_FIELD, Setting
from colibri.config.settings.forms import parts, whole
from colibri.config.sizes import parse_bytes, shown
from colibri.config.sources import gather
from colibri.errors import ConfigError

_HOST = re.compile(r"[A-Za-z0-9._:-]{1,255}|\*", re.ASCII)
_MODEL_ID = re.compile(r"[A-Za-z0-9._:/@+-]{1,200}", re.ASCII)


def _address(value: object) -> str:
    text = str(value).strip().strip("[]")
    if not _HOST.fullmatch(text) or text == "*":
        raise ConfigError(f"{shown(value)} is no name or address to listen on")
    return text


def _api_key(value: object) -> str:
    """The key of a server, as it takes one and as a client gives it."""
    text = value if isinstance(value, str) else ""
    # Spaces at its ends are lost on the way: no client could give such a key.
    if not text or text != text.strip() or not (text.isascii() and text.isprintable()):
        raise ConfigError(
            "an API key is one or more printable ASCII characters, without spaces at its ends"
        )
    return text


def _model_id(value: object) -> str:
    if not _MODEL_ID.fullmatch(str(value)):
        raise ConfigError(f"{shown(value)} is no id: letters, digits and . _ : / @ + - are")
    return str(value)


def _several(parse: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    def parse_all(value: object) -> tuple[str, ...]:
        return tuple(parse(part) for part in parts(value, ","))

    return parse_all


def _origin(value: object) -> str:
    text = str(value).strip()
    try:
        url = urlsplit(text)
        fits = bool(url.scheme and url.netloc) and text == f"{url.scheme}://{url.netloc}"
    except ValueError:  # http://[ and the like
        fits = False
    if not fits:
        raise ConfigError(f"{shown(value)} is no origin, as http://localhost:3000 is one")
    return text.lower()


def _allowed_host(value: object) -> str:
    text = str(value).strip().strip("[]").lower()
    if not _HOST.fullmatch(text):
        raise ConfigError(f"{shown(value)} is no host name; give a name without a port, or *")
    return text


def _size(value: object) -> int:
    if not isinstance(value, str | int) or (size := parse_bytes(value)) > 1 << 30:
        raise ConfigError(f"{shown(value)} is more than 1GiB, the largest body that is taken")
    return size


SERVER_SETTINGS: tuple[Setting, ...] = (
    Setting("host", "name or address", "Where to listen; 0.0.0.0: on all interfaces.", _address),
    Setting("port", "0 to 65535", "Where to listen; 0: any free port.", whole(0, 65535)),
    Setting(
        "model_id",
        "text",
        "The model's name for clients; default: the name of its directory.",
        _model_id,
    ),
    Setting(
        "api_key",
        "text",
        "Key that clients must send, except for /health/live; better given as a variable, since "
        "others on this machine see flags.",
        _api_key,
    ),
    Setting(
        "cors_origin",
        "origins, a comma between them",
        "Pages that may call this server from a browser; may be repeated.",
        _several(_origin),
    ),
    Setting(
        "allowed_host",
        "names, a comma between them; * is any",
        "More names that clients may call this server by; may be repeated.",
        _several(_allowed_host),
    ),
    Setting("max_body", "a size up to 1GiB", "Largest request body.", _size),
    Setting(
        "request_timeout",
        "1 to 604800",
        "Seconds after which an unfinished request ends with an error.",
        whole(1, 604_800),
    ),
    Setting(
        "drain_timeout",
        "0 to 86400",
        "Seconds that running answers have to finish after SIGTERM, Ctrl-C or `coli stop`.",
        whole(0, 86_400),
    ),
    Setting(
        "keepalive",
        "1 to 3600",
        "Seconds of silence in a stream after which a comment shows that the server lives.",
        whole(1, 3600),
    ),
    Setting.choosing(
        "log_prompts",
        OnOff,
        "Write prompts and answers to the log as well.",
    ),
)
SERVER_BY_FIELD = {setting.field: setting for setting in SERVER_SETTINGS}


@dataclass(frozen=True)
class ServerConfig:
    """What `coli serve` was asked for. Sizes in bytes, times in seconds."""

    host: str = "127.0.0.1"
    port: int = 8000
    model_id: str | None = None
    api_key: str | None = field(default=None, repr=False)
    cors_origin: tuple[str, ...] = ()
    allowed_host: tuple[str, ...] = ()
    max_body: int = 16_000_000
    request_timeout: int | None = None
    drain_timeout: int = 30
    keepalive: int = 5
    log_prompts: Literal["on", "off"] = "off"
    # No setting: `coli web` serves the dashboard, `coli serve` does not.
    page: bool = False
    # No settings: nobody has a reason to change them, but tests.
    head_timeout: float = 20.0  # until a request's head is there
    body_timeout: float = 60.0  # until its body is
    write_timeout: float = 60.0  # in which a client has to take something
    connections: int = 512  # at a time; over more, requests are refused

    @classmethod
    def resolve(
        cls, *, environ: Mapping[str, str], file: Path | None, **flags: object
    ) -> ServerConfig:
        """As EngineConfig.resolve."""
        return cls(**gather(SERVER_BY_FIELD, BY_FIELD, environ, file, flags))


def key_for(flag: str | None, environ: Mapping[str, str]) -> str | None:
    """The key for somebody else's server, by flag or variable, checked. None: none is given."""
    setting = SERVER_BY_FIELD["api_key"]
    if flag is not None:
        return cast(str, setting.read(flag, setting.flag))
    text = environ.get(setting.env)
    return cast(str, setting.read(text, setting.env)) if text else None
