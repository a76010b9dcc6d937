"""Synthetic containers: valid in every byte, of a real model's shape, with random weights.

`python -m colibri.lab.synthetic SHAPE DIR [TRUNK]` makes one and prints its path.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import numpy as np

from colibri.container.manifest import (
    FileEntry,
    LayerSpec,
    Manifest,
    PackedTensor,
    Source,
    Tool,
    manifest_bytes,
    read_manifest,
    record_parts,
)
from colibri.container.spec import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    RecordTail,
    down_offset,
    pack_tail,
    record_bytes,
    record_name,
)
from colibri.container.weights import ExpertShape, WeightMap
from colibri.container.writer import Chunk, OutTensor, shard_header, write_file
from colibri.convert.policy import Policy, StoreTrunk
from colibri.errors import ColibriError, ContainerError
from colibri.formats.names import Scheme
from colibri.formats.packed import SCHEMES
from colibri.lab import folder
from colibri.lab.shapes import Shape, find_shape
from colibri.lab.weights import Rings, blocks_of, normal_rows, to_bf16
from colibri.models.registry import family_for

_VERSION = 1  # of the bytes that the same parameters give
_METADATA = {"format": "pt", "colibri": str(FORMAT_VERSION)}
_WRITERS = 2  # hashing one file while another is written
_STEP_BLOCKS = 512
_BF16_ONE = 0x3F80


@dataclass(frozen=True)
class Recipe:
    """`trunk`: how linear layers are stored; at 8 or 4 bits embedding rows are stored at 8."""

    shape: Shape
    trunk: StoreTrunk = 4
    scheme: Scheme = "int4-gs64"
    seed: int = 0

    @property
    def name(self) -> str:
        trunk = "source" if self.trunk == "source" else f"trunk{self.trunk}"
        return f"{self.shape.name}-{self.scheme.removesuffix('-gs64')}-{trunk}"

    def params(self) -> dict[str, Any]:
        return {
            "synthetic": _VERSION,
            "config": dict(self.shape.config),
            "trunk": str(self.trunk),
            "scheme": self.scheme,
            "seed": self.seed,
        }


def obtain(recipe: Recipe, bench_dir: Path, say: Callable[[str], None]) -> Path:
    """As ensure, in a process of its own: what making it takes is not this one's peak memory."""
    directory = bench_dir / recipe.name
    if is_complete(directory, recipe):
        say(f"using {directory}")
        return directory
    for other in folder.others(bench_dir, directory):
        say(f"the bench keeps one container at a time: deleting {other}")
    say(f"making {directory}")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(ensure, recipe, bench_dir).result()


def ensure(recipe: Recipe, bench_dir: Path) -> Path:
    """The container's path; made if it is not there and complete.

    Another recipe's container in the folder is deleted first. Raises ConfigError (places, shape),
    CapacityError (the disk), ContainerError (writing fails).
    """
    directory = bench_dir / recipe.name
    if is_complete(directory, recipe):
        return directory
    builder = _Builder(recipe, directory)
    folder.claim(directory)
    for other in folder.others(bench_dir, directory):
        folder.remove(other)
    folder.check_space(directory, builder.nbytes)
    builder.write()
    return directory


def is_complete(directory: Path, recipe: Recipe) -> bool:
    """The manifest, written last, is of this very recipe, and the files have its sizes."""
    try:
        manifest = read_manifest(directory)
    except ContainerError:
        return False
    files = ((directory / f.name, f.size) for f in manifest.files)
    return manifest.params == recipe.params() and all(
        path.is_file() and path.stat().st_size == size for path, size in files
    )


@dataclass(frozen=True)
class _File:
    name: str
    header: bytes
    chunks: Callable[[], Iterator[Chunk]]
    tensors: int
    body_bytes: int

    @property
    def size(self) -> int:
        return len(self.header) + self.body_bytes

    def write(self, directory: Path) -> FileEntry:
        def content() -> Iterator[Chunk]:
            yield self.header
            yield from self.chunks()

        written = write_file(directory / self.name, content(), self.size, verify=False)
        return FileEntry(self.name, written.size, written.sha256, self.tensors)


class _Builder:
    def __init__(self, recipe: Recipe, directory: Path) -> None:
        self.recipe = recipe
        self.directory = directory
        self.family = family_for(recipe.shape.config)
        self.weights: WeightMap = self.family.weights_of(recipe.shape.config)
        self.policy = Policy(recipe.scheme, recipe.scheme, recipe.trunk)
        self.rings = Rings(recipe.seed)
        self.trunk = [_TrunkTensor(n, s, self._scheme(n)) for n, s in self.weights.required.items()]
        self.trunk.sort(key=lambda t: t.scheme is None)  # 64-byte pieces first: all are aligned
        self.files = [self._trunk_file(), *map(self._expert_file, self.weights.experts)]

    @property
    def nbytes(self) -> int:
        return sum(f.size for f in self.files)

    def write(self) -> None:
        config = json.dumps(dict(self.recipe.shape.config), indent=2).encode()
        side = write_file(self.directory / "config.json", [config], len(config))
        self._prepare_rings()
        with ThreadPoolExecutor(_WRITERS) as pool:
            entries = list(pool.map(lambda f: f.write(self.directory), self.files))
        entries.append(FileEntry("config.json", side.size, side.sha256))
        data = manifest_bytes(self._manifest(entries))
        write_file(self.directory / MANIFEST_NAME, [data], len(data))

    def _scheme(self, name: str) -> Scheme | None:
        match = self.weights.classify(name)
        if match is None or self.recipe.trunk == "source":
            return None
        return self.policy.scheme_of_kind(match.rule.kind)

    def _prepare_rings(self) -> None:
        """Before the writers start, which then only read them."""
        for shape in self.weights.experts.values():
            self.rings.get(self.recipe.scheme, shape.hidden)
            self.rings.get(self.recipe.scheme, shape.inner)
        for t in self.trunk:
            if t.from_ring:
                self.rings.get(t.scheme, t.shape[1])

    def _trunk_file(self) -> _File:
        header = shard_header([t.out for t in self.trunk], _METADATA)

        def chunks() -> Iterator[Chunk]:
            for number, tensor in enumerate(self.trunk):
                yield from tensor.chunks(self.rings, number)

        size = sum(t.out.nbytes for t in self.trunk)
        return _File("trunk.safetensors", header, chunks, len(self.trunk), size)

    def _expert_file(self, layer: int) -> _File:
        shape = self.weights.experts[layer]
        size = record_bytes(SCHEMES[self.recipe.scheme], shape.hidden, shape.inner)
        names = [record_name(layer, e) for e in range(shape.num_experts)]
        header = shard_header([OutTensor(n, "U8", (size,), size) for n in names], _METADATA)

        def chunks() -> Iterator[Chunk]:
            for expert in range(shape.num_experts):
                yield _record(self.rings, self.recipe.scheme, shape, layer, expert)

        name = f"experts-L{layer:05}.safetensors"
        return _File(name, header, chunks, shape.num_experts, size * shape.num_experts)

    def _manifest(self, entries: list[FileEntry]) -> Manifest:
        return Manifest(
            format_version=FORMAT_VERSION,
            family=self.family.name,
            source=Source(repository=f"synthetic:{self.recipe.shape.name}"),
            quantization=self.policy.quantization(),
            packed=[t.packed for t in self.trunk if t.scheme],
            experts=[self._layer(n, s) for n, s in sorted(self.weights.experts.items())],
            files=sorted(entries, key=lambda e: e.name),
            tool=Tool("colibri bench", str(_VERSION)),
            params=self.recipe.params(),
        )

    def _layer(self, layer: int, shape: ExpertShape) -> LayerSpec:
        scheme, hidden, inner = self.recipe.scheme, shape.hidden, shape.inner
        return LayerSpec(
            layer=layer,
            num_experts=shape.num_experts,
            record_bytes=record_bytes(SCHEMES[scheme], hidden, inner),
            scheme=scheme,
            hidden=hidden,
            inner=inner,
            parts=record_parts(scheme, hidden, inner),
        )


@dataclass(frozen=True)
class _TrunkTensor:
    name: str
    shape: tuple[int, ...]
    scheme: Scheme | None

    @property
    def from_ring(self) -> bool:
        return len(self.shape) == 2 and self.shape[0] % 16 == 0

    @property
    def out(self) -> OutTensor:
        if self.scheme is None:
            nbytes = 2 * int(np.prod(self.shape, dtype=np.int64))
            return OutTensor(self.name, "BF16", self.shape, nbytes)
        size = SCHEMES[self.scheme].nbytes(*self.shape)
        return OutTensor(self.name, "U8", (size,), size)

    @property
    def packed(self) -> PackedTensor:
        assert self.scheme is not None
        rows, cols = self.shape
        return PackedTensor(self.name, self.scheme, rows, cols, 1.0)

    def chunks(self, rings: Rings, number: int) -> Iterator[Chunk]:
        if len(self.shape) != 2:  # a norm's weights are 1, every bias 0
            value = _BF16_ONE if self.name.endswith("weight") else 0
            yield np.full(self.shape, value, np.uint16).reshape(-1).view(np.uint8)
            return
        rows, cols = self.shape
        if self.scheme is None and not self.from_ring:  # a shared expert's gate: one row
            rng = np.random.default_rng((rings.seed, number))
            yield to_bf16(normal_rows(rng, rows, cols)).reshape(-1).view(np.uint8)
            return
        ring, blocks, start = rings.get(self.scheme, cols), blocks_of(rows, self.name), 31 * number
        for first in range(0, blocks, _STEP_BLOCKS):
            yield ring.take(start + first, min(_STEP_BLOCKS, blocks - first))


def _record(rings: Rings, scheme: Scheme, shape: ExpertShape, layer: int, expert: int) -> Chunk:
    hidden, inner = shape.hidden, shape.inner
    start = 7919 * layer + 104729 * expert
    record = np.zeros(record_bytes(SCHEMES[scheme], hidden, inner), np.uint8)
    down = down_offset(SCHEMES[scheme], hidden, inner)
    record[:down] = rings.get(scheme, hidden).take(start, 2 * blocks_of(inner, "an expert's gate"))
    body = rings.get(scheme, inner).take(start, blocks_of(hidden, "an expert's down"))
    record[down : down + len(body)] = body
    pack_tail(record, RecordTail(layer, expert, (1.0, 1.0, 1.0)))
    return record


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    if not 1 <= len(arguments) <= 3:
        sys.stderr.write("usage: python -m colibri.lab.synthetic SHAPE [DIR [source|8|4]]\n")
        return 2
    bench_dir = Path(arguments[1]) if len(arguments) > 1 else folder.default_folder(environ)
    text = arguments[2] if len(arguments) > 2 else "4"
    trunk: StoreTrunk = cast(StoreTrunk, int(text) if text.isdecimal() else text)
    try:
        path = ensure(Recipe(find_shape(arguments[0]), trunk), bench_dir)
    except ColibriError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
