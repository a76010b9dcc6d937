"""tokenizer_config.json: the named special tokens and the rule for a raw prompt's BOS and EOS."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colibri.errors import TokenizerError
from colibri.text.files import read_object

NAMES = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")
_LISTS = ("additional_special_tokens", "extra_special_tokens")


@dataclass(frozen=True)
class SpecialTokens:
    """What the files beside tokenizer.json say; None means unsaid."""

    named: dict[str, str]  # "bos_token" -> "<s>"
    others: tuple[str, ...]
    added: dict[int, dict[str, Any]]  # id -> AddedToken fields
    add_bos: bool | None
    add_eos: bool | None


def load_special_tokens(directory: Path) -> SpecialTokens:
    """Reads tokenizer_config.json, and special_tokens_map.json for what it leaves out; both may be
    absent.
    """
    path = directory / "tokenizer_config.json"
    config = read_object(path) if os.path.lexists(path) else {}
    older = directory / "special_tokens_map.json"
    mapped = read_object(older) if os.path.lexists(older) else {}
    named = _named(mapped, older) | _named(config, path)
    return SpecialTokens(
        named=named,
        others=tuple(_others(config, path)),
        added=_added(config, path),
        add_bos=_add_bos(config, path),
        add_eos=_flag(config, "add_eos_token", path),
    )


def _named(config: dict[str, Any], path: Path) -> dict[str, str]:
    found = {name: _content(config.get(name), name, path) for name in NAMES}
    return {name: text for name, text in found.items() if text is not None}


def _content(value: object, field: str, path: Path) -> str | None:
    """A token is written as "<s>" or as {"content": "<s>", ...}."""
    if isinstance(value, dict):
        value = value.get("content")
    if value is None or isinstance(value, str):
        return value
    raise TokenizerError(
        f"{path}: {field} is {value!r}; a string or an object with content expected"
    )


def _others(config: dict[str, Any], path: Path) -> list[str]:
    found: list[str] = []
    for field in _LISTS:
        value = config.get(field) or []
        if isinstance(value, dict):  # newer files: name -> token
            value = list(value.values())
        if not isinstance(value, list):
            raise TokenizerError(f"{path}: {field} is {value!r}; a list of tokens expected")
        found += [text for item in value if (text := _content(item, field, path)) is not None]
    return found


def _added(config: dict[str, Any], path: Path) -> dict[int, dict[str, Any]]:
    field = "added_tokens_decoder"
    value = config.get(field) or {}
    if not isinstance(value, dict):
        raise TokenizerError(f"{path}: {field} is not an object of token ids")
    result = {}
    for key, token in value.items():
        if not (key.isascii() and key.isdigit() and isinstance(token, dict)):
            raise TokenizerError(f"{path}: {field}[{key!r}] is not a token id with a token")
        if not isinstance(token.get("content"), str):
            raise TokenizerError(f"{path}: {field}[{key!r}] has no content string")
        result[int(key)] = token
    return result


def _add_bos(config: dict[str, Any], path: Path) -> bool | None:
    flag = _flag(config, "add_bos_token", path)
    kind = config.get("tokenizer_class")
    if flag is None and kind in ("LlamaTokenizer", "LlamaTokenizerFast"):
        return True  # the default of that class, whatever tokenizer.json's post-processor does
    return flag


def _flag(config: dict[str, Any], field: str, path: Path) -> bool | None:
    value = config.get(field)
    if value is None or isinstance(value, bool):
        return value
    raise TokenizerError(f"{path}: {field} is {value!r}; true or false expected")
