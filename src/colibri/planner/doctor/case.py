"""What the checks look at: a model's directory, read when first asked for, and the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from colibri.config import EngineConfig
from colibri.container.files import list_names
from colibri.container.foreign import refuse_foreign
from colibri.container.header import TensorInfo
from colibri.container.jsonfile import read_json
from colibri.container.manifest import Manifest, read_manifest
from colibri.container.reader import Container, open_container
from colibri.container.shards import read_shards
from colibri.container.spec import JOURNAL_NAME, MANIFEST_NAME
from colibri.container.spread import SUFFIX
from colibri.errors import ColibriError, ContainerError
from colibri.hardware.host import Host
from colibri.hardware.iobench import DiskRate, Extent
from colibri.hardware.neighbours import Neighbour
from colibri.hardware.storage import Storage
from colibri.models.family import Family
from colibri.models.registry import family_for
from colibri.planner.doctor.finding import Found
from colibri.text.tokenizer import Tokenizer

_EXTENT_BYTES = 1 << 20
_EXTENTS = 4096

T = TypeVar("T")
OnProgress = Callable[[str, int, int], None]  # what, bytes done, bytes in all


class Unavailable(Exception):
    """What a check needs is damaged or missing, and another check has already said so."""


@dataclass(frozen=True)
class Depth:
    """How much is read: `deep` checks every record (or `sample` of them), `hashes` every file."""

    deep: bool = False
    sample: int | None = None
    hashes: bool = False


@dataclass(frozen=True)
class Surroundings:
    """Everything that is not the model: measured or read by the caller, made up by tests."""

    host: Host
    storage: Storage
    cpu_path: str
    rss_bytes: int
    neighbours: tuple[Neighbour, ...]
    environ: Mapping[str, str]
    config_file: Path | None
    disk_rate: Callable[[Sequence[Extent]], DiskRate]


class ModelFiles:
    """A model's directory. What cannot be read raises its ColibriError at the first time, and
    Unavailable at every later one, so that each defect is told once."""

    def __init__(self, path: Path, others: Sequence[Path] = ()) -> None:
        self.path = path
        self.others = others  # more directories that hold weights of the model
        self._known: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The directory's files, of which one is config.json."""
        return self._once("directory", self._listed)

    @property
    def config(self) -> dict[str, Any]:
        _ = self.names  # where there is no model, that is the news
        return self._once("config", lambda: read_json(self.path / "config.json"))

    @property
    def family(self) -> Family:
        return self._once("family", lambda: family_for(self.config))

    @property
    def parsed(self) -> Any:
        """The family's own Config."""
        return self._once("parsed", lambda: self.family.parse(self.config))

    @property
    def converted(self) -> bool:
        return MANIFEST_NAME in self.names

    @property
    def manifest(self) -> Manifest:
        return self._once("manifest", lambda: read_manifest(self.path))

    @property
    def container(self) -> Container:
        weights = self.family.weights
        return self._once(
            "container",
            lambda: open_container(self.path, lambda _: weights(self.parsed), others=self.others),
        )

    @property
    def generation_config(self) -> dict[str, Any]:
        name = "generation_config.json"
        present = name in self.names
        return self._once(name, lambda: read_json(self.path / name) if present else {})

    @property
    def tokenizer(self) -> Tokenizer | None:
        present = "tokenizer.json" in self.names
        return self._once("tokenizer", lambda: Tokenizer.load(self.path) if present else None)

    @property
    def extents(self) -> list[Extent]:
        """Pieces to measure the disk on, spread over all weights."""
        sizes = [(file, file.stat().st_size // _EXTENT_BYTES) for file in self.weight_files]
        places = [(file, i) for file, count in sizes for i in range(count)]
        step = max(1, len(places) // _EXTENTS)
        return [Extent(file, i * _EXTENT_BYTES, _EXTENT_BYTES) for file, i in places[::step]]

    @property
    def stored(self) -> dict[str, TensorInfo]:
        """Every tensor of a model as downloaded, by name."""
        return self._once("shards", lambda: read_shards(self.path, self.others))

    @property
    def weight_files(self) -> list[Path]:
        """In all directories of the model."""
        return self._once("weights", self._weight_files)

    def _weight_files(self) -> list[Path]:
        folders = [(self.path, self.names), *((d, list_names(d)) for d in self.others)]
        return [d / name for d, names in folders for name in names if name.endswith(SUFFIX)]

    def _listed(self) -> list[str]:
        names = list_names(self.path)
        if JOURNAL_NAME in names and MANIFEST_NAME not in names:
            raise ContainerError(
                f"{self.path}: an unfinished conversion: run the same `coli convert` again, and it "
                "goes on where it stopped"
            )
        if "config.json" not in names:
            refuse_foreign(self.path, names)
            raise ContainerError(
                f"{self.path}: holds no config.json, so it is not the directory of a model"
            )
        return names

    def _once(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._known:
            try:
                self._known[name] = make()
            except (ColibriError, OSError, MemoryError) as error:
                self._known[name] = Unavailable(f"{name} could not be read: see above")
                raise error
        known = self._known[name]
        if isinstance(known, Unavailable):
            raise known
        return known  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Case:
    """One examination."""

    model: ModelFiles
    config: EngineConfig
    machine: Surroundings
    depth: Depth = field(default_factory=Depth)
    progress: OnProgress = lambda what, done, total: None


Check = Callable[[Case], Sequence[Found]]
