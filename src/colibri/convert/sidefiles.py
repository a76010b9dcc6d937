"""The small files beside the weights: copied as they are, each missing one named."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from colibri.container.files import has_file, list_names, opened, read_range
from colibri.container.jsonfile import read_json
from colibri.container.lookalike import looks_like
from colibri.container.writer import Written, write_file
from colibri.convert.progress import Meter
from colibri.errors import ContainerError
from colibri.text.builtin import BUILT_IN

logger = logging.getLogger(__name__)

MAX_BYTES = 256 << 20
_WANTED = re.compile(
    r"(config|generation_config|preprocessor_config|processor_config|added_tokens"
    r"|special_tokens_map)\.json"
    r"|tokenizer.*\.(json|model|txt)|vocab.*\.(json|txt|bpe)|merges.*\.txt|chat_template.*"
    r"|.*\.(jinja|model|tiktoken)|(LICENSE|LICENCE|NOTICE|COPYING|USE_POLICY|README).*",
    re.IGNORECASE | re.ASCII,
)
_TOKENIZER = re.compile(r"tokenizer\.(json|model)|.*\.(tiktoken|model)|vocab\.json", re.IGNORECASE)
_LFS = b"version https://git-lfs"


def side_files(source: Path) -> list[str]:
    """Names of what is copied; config.json must be among them and be JSON."""
    read_json(source / "config.json")
    return [n for n in list_names(source) if is_side_file(n) and _is_file(source, n)]


def _is_file(source: Path, name: str) -> bool:
    return has_file(source, name) and (source / name).is_file()


def is_side_file(name: str) -> bool:
    return _WANTED.fullmatch(name) is not None


def copy_side_file(source: Path, destination: Path, name: str, meter: Meter) -> Written:
    with opened(source / name) as (fd, size):
        if size > MAX_BYTES:
            raise ContainerError(f"{source / name}: {size} bytes, too large for a side file")
        data = read_range(fd, source / name, 0, size)
    if data.startswith(_LFS):
        raise ContainerError(f"{source / name}: {looks_like(data[:512], size)}")
    meter.begin("copy", name)
    return write_file(destination / name, [data], size, meter.step)


def warn_of_missing(source: Path, names: list[str]) -> None:
    """Log each file that a usable model has and this one lacks."""
    if not any(_TOKENIZER.fullmatch(n) for n in names):
        logger.warning(
            "%s: no tokenizer.json: the converted model will answer token ids only", source
        )
    for name in ("tokenizer_config.json", "generation_config.json"):
        if name not in names:
            logger.warning("%s: no %s: defaults will be used in its place", source, name)
    if not _has_template(source, names):
        logger.warning("%s: no chat template: chat will not work with this model", source)


def _has_template(source: Path, names: list[str]) -> bool:
    if any(n.startswith("chat_template") or n.endswith(".jinja") for n in names):
        return True
    config = "tokenizer_config.json"
    if config in names and "chat_template" in read_json(source / config):
        return True
    return read_json(source / "config.json").get("model_type") in BUILT_IN
