"""What linear attention costs: `python -m benchmarks.linear SHAPE`.

SHAPE is one of `coli bench` whose first layers are linear, and only these: `qwen3.6-35b-a3b:3`
(gated DeltaNet), `glm-5.3-flash:3` (KDA). Prompts of 2048, 4096 and 8192 tokens in turn, then
single tokens, each beside a sample of the memory's bandwidth. Time is that of the phase
`attention`, of which a line gives the least of ROUNDS; a token's bytes are the layer's weights as
loaded and its state, read and written.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from colibri import LLM, SamplingParams
from colibri.config import EngineConfig
from colibri.container.reader import Container
from colibri.container.trunk import matrix_bytes
from colibri.kernels import cpu
from colibri.kvcache.recurrent import RecurrentState
from colibri.lab.clock import StepClock, StepRecord, by_layer
from colibri.lab.gauge import ProcessGauge
from colibri.lab.shapes import find_shape
from colibri.lab.synthetic import Recipe, obtain
from colibri.runtime import open_model

PROMPTS = (2048, 4096, 8192)
CHUNK, TOKENS, ROUNDS = 1024, 32, 3
MIXERS = ("linear_attn.", "self_attn.")


def attention(records: list[StepRecord], layers: list[int]) -> float:
    """Seconds of these steps in these layers."""
    return sum(by_layer(record)[n]["attention"] for record in records for n in layers)


def weight_bytes(container: Container, layer: int, bits: int) -> int:
    """Of the layer's mixer, as loaded."""
    total = 0
    for name in container.weights.required:
        match = container.weights.classify(name)
        if match and match.layer == layer and any(mixer in name for mixer in MIXERS):
            exact = match.rule.kind == "exact"
            total += matrix_bytes(container.info(name), "source" if exact else bits)  # type: ignore[arg-type]
    return total


@dataclass
class Times:
    """Seconds of all linear layers together; bytes a second of memory after each prompt."""

    prefill: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    decode: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


def measured(llm: LLM, clock: StepClock, layers: list[int], gauge: ProcessGauge) -> Times:
    times = Times()
    vocab = llm._engine.model.vocab_size
    prompt = np.random.default_rng(1).integers(0, vocab, PROMPTS[-1]).tolist()
    params = SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True)
    for _ in range(ROUNDS):
        for length in PROMPTS:
            clock.restart()
            llm.generate(prompt[:length], params)
            records = clock.take()
            times.prefill[length].append(attention([r for r in records if r.prefill], layers))
            tokens = [attention([r], layers) for r in records if not r.prefill]
            times.decode.append(statistics.median(tokens))
            times.memory.append(gauge.memory(cpu.num_threads()))
    return times


def report(times: Times, layers: int, nbytes: int) -> None:
    least = {length: min(seconds) for length, seconds in times.prefill.items()}
    for length, seconds in least.items():
        print(f"prefill {length:5}: {seconds:7.3f} s")
    for shorter, longer in pairwise(PROMPTS):
        print(f"time({longer}) / time({shorter}) = {least[longer] / least[shorter]:.2f}")
    rates = [nbytes / seconds for seconds in times.decode]
    share = statistics.median(a / b for a, b in zip(rates, times.memory, strict=True))
    print(
        f"decode: {1e3 * min(times.decode) / layers:.2f} to {1e3 * max(times.decode) / layers:.2f}"
        f" ms a layer for {nbytes / layers / 1e6:.1f} MB, {min(rates) / 1e9:.1f} to"
        f" {max(rates) / 1e9:.1f} GB/s; memory {min(times.memory) / 1e9:.1f} to"
        f" {max(times.memory) / 1e9:.1f}; median share {share:.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape")
    parser.add_argument("--trunk-bits", type=int, choices=(4, 8), default=4)
    parser.add_argument("--bench-dir", type=Path, default=Path("build/bench"))
    args = parser.parse_args()
    path = obtain(Recipe(find_shape(args.shape), args.trunk_bits), args.bench_dir, print)
    config = EngineConfig(
        model=str(path),
        context=PROMPTS[-1] + TOKENS,
        prefill_chunk=CHUNK,
        prefix_cache=0,
        activations="int8",
        lookahead="off",
        usage="off",
    )
    container, clock = open_model(path, config), StepClock()
    with ProcessGauge() as gauge, LLM.from_config(config, clock=clock) as llm:
        caches = enumerate(llm._engine.model.new_state(1).layers)
        states = {n: cache.nbytes for n, cache in caches if isinstance(cache, RecurrentState)}
        times = measured(llm, clock, list(states), gauge)
    weights = sum(weight_bytes(container, n, args.trunk_bits) for n in states)
    print(f"{args.shape}, {len(states)} linear layers, trunk at {args.trunk_bits} bits")
    report(times, len(states), weights + 2 * sum(states.values()))


if __name__ == "__main__":
    main()
