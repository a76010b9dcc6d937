"""Whether a model's files may all be open: one answer for whoever asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from colibri.container.layerexperts import LayerExperts
from colibri.container.mirror import experts_by_file
from colibri.errors import CapacityError
from colibri.hardware.descriptors import allow, limit_now, open_now

SPARE = 64  # for the trunk's files, records, libraries and a few connections
_BESIDE = 1024  # more are asked for, which a server's connections and reads past a fault may take


def needed(layers: Mapping[int, LayerExperts], mirrors: int) -> int:
    """Descriptors: each file of experts stays open, as does its copy in each mirror."""
    return len(experts_by_file(layers)) * (1 + mirrors) + SPARE


def left_for_connections(layers: Mapping[int, LayerExperts], mirrors: int) -> int | None:
    """Descriptors beside those of the model's files, which are opened as they are first read, the
    process's own, and connections that are accepted before any can be refused. None: any number."""
    limit = limit_now()
    return None if limit is None else max(0, limit - needed(layers, mirrors))


def left_while_loading(connections: int) -> int | None:
    """Descriptors for connections while it is not known what a model will need: beside plenty for
    that, as many as are wanted; else a few, which no model is denied its files for."""
    limit = allow(connections + _BESIDE)
    return None if limit is None else max(SPARE // 4, limit - _BESIDE)


def allow_open_files(path: Path, layers: Mapping[int, LayerExperts], mirrors: int) -> None:
    """Before anything is loaded. Raises CapacityError where the system allows too few."""
    least = needed(layers, mirrors) + max(0, open_now() - SPARE // 2)
    most = allow(2 * least + _BESIDE)
    if most is not None and most < least:
        raise CapacityError(
            f"{path}: {least} files must be open, those of the model's experts among them, and at "
            f"most {most} may be: raise the hard limit (ulimit -Hn, or LimitNOFILE= of a service)"
        )
