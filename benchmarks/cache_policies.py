"""Which cache policy is best, by replay: the embedded model on held-out prompts, and drawn routing.

    python benchmarks/cache_policies.py [--work DIR] [--what real,drawn] [--scope layer,global]

Prints the tables of docs/cache.md. A ratio is slots a layer / experts a token; hit rates are those
of decode.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from colibri import LLM, SamplingParams
from colibri.lab.drawing import Drawn, DrawnRows
from colibri.lab.replay.capacity import parse_capacities
from colibri.lab.replay.outcome import Outcome
from colibri.lab.replay.run import OPTIMUM, Wanted, replay
from colibri.routing.trace import Call, Header, LayerFacts, TraceFile, encode, encode_header

PROMPTS = Path(__file__).parent / "heldout.jsonl"
RATIOS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 4.0, 6.0)
ANSWERS = 4  # a prompt, each with its seed
Rates = dict[tuple[str, str, float, str], float]  # of (trace, scope, ratio, policy)


def record_domains(folder: Path) -> Iterator[Path]:
    """A trace of each domain: all its prompts in turn, by one model."""
    turns: dict[str, list[list[str]]] = {}
    for line in PROMPTS.read_text(encoding="utf-8").splitlines():
        prompt = json.loads(line)
        turns.setdefault(prompt["domain"], []).append(prompt["turns"])
    for domain, prompts in turns.items():
        path = folder / f"{domain.replace(' ', '_')}.trace"
        with LLM(ram="600MB", lookahead="off", trace=str(path)) as llm:
            for seed in range(ANSWERS):
                for prompt in prompts:
                    llm.chat(messages(prompt), SamplingParams(seed=seed, max_tokens=120))
        yield path


def messages(turns: Sequence[str]) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(turns)]


def draw(folder: Path, zipf: float, persistence: float, tokens: int = 600) -> Path:
    """A trace of three layers with 64 experts, 8 a token, without a prompt."""
    layers = [LayerFacts(n, 64, 8, 1, 1) for n in range(3)]
    ids, _ = DrawnRows(Drawn(zipf, persistence), 0, [64] * 3, 8).rows(0, tokens)
    weights = np.ones((1, 8), np.float32)
    path = folder / f"zipf:{zipf:g},persist:{persistence:g}"
    calls = (Call(n, [0], token[n : n + 1], weights) for token in ids for n in range(3))
    header = Header(model=path.name, hidden_size=8, layers=layers)
    path.write_bytes(encode_header(header) + b"".join(map(encode, calls)))
    return path


def measure(path: Path, policies: Sequence[str], scopes: Sequence[str]) -> Rates:
    trace = TraceFile(path)
    k, most = trace.header.layers[0].k, trace.header.layers[0].experts
    text = ",".join(f"{r}x" for r in RATIOS if r * k < most)
    wanted = Wanted(
        capacities=parse_capacities(text, trace.header.layers),
        policies=(*policies, OPTIMUM),
        scopes=scopes,  # type: ignore[arg-type]
    )
    found: Outcome = replay(trace, wanted)
    name = path.name.removesuffix(".trace")
    print(f"  {name}: {found.tokens} tokens", flush=True)
    return {
        (name, row.scope, float(row.capacity[:-1]), row.policy): row.decode_hit_rate
        for row in found.rows
    }


def report(title: str, rates: Rates, policies: Sequence[str], scope: str) -> None:
    columns = [*policies, OPTIMUM]
    print(f"\n{title}, scope {scope}: mean hit rate in decode, %")
    print("| ratio | " + " | ".join(columns) + " | auto - best fixed | auto - lru |")
    print("|---" * (len(columns) + 3) + "|")
    for ratio in RATIOS:
        names = sorted({key[0] for key in rates if key[1:3] == (scope, ratio)})
        if not names:
            continue
        by = {p: [100 * rates[n, scope, ratio, p] for n in names] for p in columns}
        fixed = np.max([by[p] for p in policies if p != "auto"], axis=0)
        worst = np.min(np.subtract(by["auto"], fixed))
        lru = np.min(np.subtract(by["auto"], by["lru"]))
        means = " | ".join(f"{np.mean(by[p]):.1f}" for p in columns)
        print(f"| {ratio:g} | {means} | {worst:+.1f} | {lru:+.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="Keeps the traces here, and takes those there.")
    parser.add_argument("--policy", default="auto,lru,slru,lfru,s3fifo,tglru")
    parser.add_argument("--scope", default="layer,global")
    parser.add_argument("--what", default="real,drawn")
    given = parser.parse_args()
    policies, scopes = given.policy.split(","), given.scope.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.work or Path(scratch)
        sets: dict[str, Sequence[Path]] = {}
        if "real" in given.what:
            traces = sorted(folder.glob("*.trace")) or list(record_domains(folder))
            sets["Embedded model"] = traces
        if "drawn" in given.what:
            mixes = [(z, p) for z in (0, 0.8, 1.2) for p in (0, 0.3, 0.6, 0.9)]
            sets["Drawn routing"] = [draw(folder, z, p) for z, p in mixes]
        for title, paths in sets.items():
            rates: Rates = {}
            for path in paths:
                rates |= measure(path, policies, scopes)
            for scope in scopes:
                report(title, rates, policies, scope)


if __name__ == "__main__":
    main()
