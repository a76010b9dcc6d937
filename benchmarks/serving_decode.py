"""What HTTP costs decode: `python -m benchmarks.serving_decode BENCH_DIR [SHAPE [ROUNDS]]`.

`coli bench` and `coli serve` over the same synthetic model, each a process of its own, in turn.
Both have RUNS prompts of PROMPT ids and answers of TOKENS tokens, after one that is not counted.
Over HTTP the client stamps the chunks of the stream as they arrive. A line a round: tokens a second
after the first, the medians, and their ratio; at last the median of the ratios.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.serving_kit import COLI, served, speaking_model, streamed
from colibri.lab.shapes import find_shape

PROMPT, TOKENS, RUNS = 64, 64, 3
FLAGS = ("--context", "512", "--prefix-cache", "0", "--usage", "off")


def by_bench(model: Path, scratch: Path) -> float:
    result = scratch / "bench.json"
    counts = ("--prompt-tokens", str(PROMPT), "--new-tokens", str(TOKENS), "--repeat", str(RUNS))
    command = (*COLI, "bench", "--model", str(model), *counts, "--json", str(result), *FLAGS)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return float(json.loads(result.read_text())["decode"]["tps"])


def by_http(model: Path, vocab: int) -> float:
    rates = []
    with served(model, *FLAGS) as url:
        for run in range(1 + RUNS):
            prompt = np.random.default_rng((0, run)).integers(0, vocab, PROMPT).tolist()
            body = {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
            answer = streamed(url, "/v1/completions", body)
            times = [at for at, choice in answer.choices if choice["text"]]
            tokens = answer.usage["completion_tokens"]
            assert len(times) == tokens == TOKENS, (len(times), tokens)  # a chunk is a token
            rates.append((tokens - 1) / (times[-1] - times[0]))
    return float(median(rates[1:]))


def main(bench_dir: Path, shape: str, rounds: int) -> None:
    ratios = []
    with tempfile.TemporaryDirectory() as scratch:
        model = speaking_model(shape, bench_dir, Path(scratch) / "model", chats=False)
        for number in range(rounds):
            # The later one of a pair is not always the same.
            if number % 2:
                http = by_http(model, find_shape(shape).config["vocab_size"])
                bench = by_bench(model, Path(scratch))
            else:
                bench = by_bench(model, Path(scratch))
                http = by_http(model, find_shape(shape).config["vocab_size"])
            ratios.append(http / bench)
            line = f"bench {bench:.2f} tok/s ({1e3 / bench:.1f} ms a token), http {http:.2f}"
            print(f"{line}: {ratios[-1]:.1%}", flush=True)
    print(f"over HTTP {median(ratios):.1%} of bench, the median of {rounds} rounds")


if __name__ == "__main__":
    given = sys.argv[2:]
    main(
        Path(sys.argv[1]),
        given[0] if given else "olmoe-1b-7b",
        int(given[1]) if len(given) > 1 else 3,
    )
