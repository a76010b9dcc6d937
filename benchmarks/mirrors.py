"""What mirrors bring, with drives of known speed: `python -m benchmarks.mirrors MODEL FOLDER ROWS`.

Reads are throttled by directory, as if each were a drive of so many MB/s. A mirror is a folder of
hard links to the model's files, so FOLDER must be on the model's file system. One line a case, the
median of ROUNDS in turn: calls a second of a layer's experts, drawn at random, a quarter of them in
memory.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import numpy as np

from colibri.config import EngineConfig
from colibri.container.layerexperts import LayerExperts, main_layers
from colibri.container.mirror import experts_by_file
from colibri.experts.reads import sources
from colibri.experts.reads.sources import open_drives
from colibri.experts.streamed import StreamedExperts
from colibri.experts.weights import Weights
from colibri.runtime import open_model

MB = 1_000_000
FAST, HALF, SLOW = 400 * MB, 200 * MB, 20 * MB
TOP_K = 8
SECONDS = 4.0
ROUNDS = 3


class Throttled:
    """os.preadv at so many bytes a second from each directory, all threads together."""

    def __init__(self, rates: Mapping[Path, float]) -> None:
        self._rates = rates
        self._lock = threading.Lock()
        self._free_at = dict.fromkeys(rates, 0.0)
        self._directories: dict[int, Path] = {}

    def __call__(self, descriptor: int, buffers: list[memoryview], offset: int) -> int:
        got = os.preadv(descriptor, buffers, offset)
        directory = Path(os.readlink(f"/proc/self/fd/{descriptor}")).parent
        with self._lock:
            begin = max(self._free_at[directory], time.perf_counter())
            end = self._free_at[directory] = begin + got / self._rates[directory]
        time.sleep(max(0.0, end - time.perf_counter()))
        return got


class Bench:
    def __init__(self, layers: Mapping[int, LayerExperts], rates: Mapping[Path, float]) -> None:
        self._layers = layers
        self._rates = rates

    def calls_a_second(self, mirrors: list[Path], weights: Weights, rows: int) -> tuple[float, str]:
        """And what share of the bytes came from each directory."""
        slots = {n: layer.num_experts // 4 for n, layer in self._layers.items()}
        experts = StreamedExperts(
            self._layers,
            slots_per_layer=slots,
            drives=open_drives(self._layers, mirrors),
            disk_weights=weights,
            read=Throttled(self._rates),
        )
        try:
            calls = self._run(experts, rows)
            drives = experts.stats().drives
        finally:
            experts.close()
        total = sum(drive.nbytes for drive in drives)
        return calls, " : ".join(f"{100 * drive.nbytes / total:.0f} %" for drive in drives)

    def _run(self, experts: StreamedExperts, rows: int) -> float:
        """rows: of a call, each with experts of its own."""
        rng = np.random.default_rng(0)
        calls, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < SECONDS:
            for n, layer in self._layers.items():
                x = rng.standard_normal((rows, layer.layout.hidden), np.float32)
                ids = [rng.permutation(layer.num_experts)[:TOP_K] for _ in range(rows)]
                weights = np.full((rows, TOP_K), 1 / TOP_K, np.float32)
                experts.run(n, x, np.array(ids, np.int32), weights)
                calls += 1
        return calls / (time.perf_counter() - begin)


def linked(files: list[Path], directory: Path) -> Path:
    directory.mkdir()
    for file in files:
        os.link(file, directory / file.name)
    return directory


def main(model: Path, folder: Path, given: list[int]) -> None:
    layers = main_layers(open_model(model, EngineConfig(model=str(model))).layers)
    files = list(experts_by_file(layers))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        second, third = (linked(files, Path(scratch) / name) for name in ("second", "third"))
        bench = Bench(layers, {files[0].parent: FAST, second: HALF, third: SLOW})
        for what, rows in ((f"{n} rows", n) for n in given):
            report(bench, what, rows, second, third)


def report(bench: Bench, what: str, rows: int, second: Path, third: Path) -> None:
    cases: list[tuple[str, list[Path], Weights, int | None]] = [
        ("the faster alone", [second], [1, 0], None),
        ("both, measured", [second], "auto", None),
        ("both, measured, experts whole", [second], "auto", 1 << 40),
        ("and a third at a 20th, measured", [second, third], "auto", None),
    ]
    rates: dict[str, list[float]] = {name: [] for name, *_ in cases}
    shares: dict[str, str] = {}
    for _ in range(ROUNDS):
        for name, mirrors, weights, least in cases:
            sources.LEAST_PART_BYTES = 256 << 10 if least is None else least
            rate, shares[name] = bench.calls_a_second(mirrors, weights, rows)
            rates[name].append(rate)
    alone = median(rates[cases[0][0]])
    for name, found in rates.items():
        rate = median(found)
        line = f"{what:8} {name:32} {rate:6.2f} calls/s {rate / alone:5.2f} x  {shares[name]}"
        print(line, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), list(map(int, sys.argv[3:])))
