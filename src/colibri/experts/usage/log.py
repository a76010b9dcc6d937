"""What a running model knows of its usage: what the file held, and what was counted since."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from colibri.config import EngineConfig, state_folder
from colibri.container.output import check_folder
from colibri.container.reader import Container
from colibri.container.writer import naming_the_file
from colibri.errors import ColibriError, ConfigError
from colibri.experts.usage.counts import Counts, UsageRecorder
from colibri.experts.usage.file import USAGE_NAME, Found, Subject, UsageFile
from colibri.experts.usage.recency import Recency

logger = logging.getLogger("colibri")


def usage_path(
    wish: str, directory: Path, subject: Subject, environ: Mapping[str, str], *, embedded: bool
) -> Path | None:
    """Where a model's usage is kept: `wish` is auto, off or a path. None: nowhere.

    auto: beside the model; in the user's state directory where that cannot be written, and for the
    embedded model, whose directory is the program's.
    """
    if wish == "off":
        return None
    if wish != "auto":
        return Path(wish)
    if not embedded and os.access(directory, os.W_OK):
        return directory / USAGE_NAME
    state = state_folder(environ)
    return state and state / "usage" / (subject.fingerprint + USAGE_NAME)


def usage_of_model(
    config: EngineConfig, model: Container, environ: Mapping[str, str]
) -> tuple[Subject, Path | None]:
    """Whose usage it is, and where it is kept for this configuration."""
    subject = Subject.of_model(model)
    embedded = config.model is None
    return subject, usage_path(config.usage, model.path, subject, environ, embedded=embedded)


def usage_file(
    config: EngineConfig, model: Container, environ: Mapping[str, str]
) -> UsageFile | None:
    """None: it is kept nowhere."""
    subject, path = usage_of_model(config, model, environ)
    return None if path is None else UsageFile(path, subject, config.usage_half_life)


class UsageLog:
    """Counts of all that is known, kept in a file if there is one. For the thread that runs the
    model. A file that cannot be read or written costs one warning and nothing else."""

    def __init__(self, subject: Subject, half_life_tokens: int, path: Path | None) -> None:
        self.subject = subject
        self.recorder = UsageRecorder(subject.experts, half_life_tokens)
        self._half_life_tokens = half_life_tokens
        self._file = None if path is None else UsageFile(path, subject, half_life_tokens)
        self._known = Counts.none(subject.experts)
        self._warned = False
        self._named = False

    def load(self, *, named: bool) -> None:
        """Reads the file. named: the user named it; then one that cannot be read, or of another
        model, is a ConfigError, as is one in a directory that is not there."""
        if self._file is None:
            return
        self._named = named
        if named:
            check_folder("--usage", self._file.path)
        try:
            found = self._file.read()
        except ColibriError as error:
            if named:
                raise ConfigError(f"--usage {error}") from None
            self._warn(f"{error}; counting starts anew")
            return
        if named and found.foreign:
            raise ConfigError(
                f"--usage {self._file.path}: {found.problems[0]}; this one is "
                f"{self.subject.name!a}: name another file, or move this one away"
            )
        self._known = found.counts
        self._tell_of(found)

    def counts(self) -> Counts:
        """As of now, of this process and of the others when last seen."""
        return self._known.then(self.recorder.counts(), self._half_life_tokens)

    def peek(self) -> tuple[Counts, Recency]:
        """counts(), and when each expert was selected last in this process; from any thread."""
        newer, recency = self.recorder.peek()
        return self._known.then(newer, self._half_life_tokens), recency

    @property
    def path(self) -> Path | None:
        """Where it is kept; None: nowhere."""
        return None if self._file is None else self._file.path

    def save(self) -> None:
        """Adds what is new to the file; if that fails, it is tried again with what is new then."""
        newer = self.recorder.counts()
        if self._file is None or not newer.tokens:
            return
        try:
            if not self._named:
                with naming_the_file(self._file.path):
                    self._file.path.parent.mkdir(parents=True, exist_ok=True)
            # Who has waited in vain for the lock once does not wait again.
            found = self._file.add(newer, wait=not self._warned)
        except (ColibriError, OSError) as error:
            self._warn(
                f"the usage of experts is not saved: {error}; name a file that can be written "
                "(--usage FILE), or keep none (--usage off)"
            )
            return
        self.recorder.take()
        self._known = found.counts
        self._tell_of(found)

    def _tell_of(self, found: Found) -> None:
        if found.problems and self._file is not None:
            others = len(found.problems) - 1
            more = f" (and {others} more)" if others else ""
            self._warn(
                f"{self._file.path}: {found.problems[0]}{more}: refused; the file is kept beside "
                "it as .old when usage is saved"
            )

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("%s", text)
