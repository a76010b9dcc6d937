"""Experts cached at three bits: what it costs and what it brings, on the embedded model.

    python benchmarks/cache_bits.py [--prompts N]

Prints the table of docs/cache.md: agreement and KL against the stored bits over held-out
conversations, position by position; then hit rates and speed of decode with a quarter of the
experts cached, and with the slots that the same memory holds at three bits.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Literal

import numpy as np

from colibri import LLM, SamplingParams

PROMPTS = Path(__file__).parent / "heldout.jsonl"
SHARE = 0.25  # of a layer's experts
Bits = Literal["stored", 3]


def conversations(count: int) -> list[list[dict[str, str]]]:
    lines = PROMPTS.read_text(encoding="utf-8").splitlines()[:count]
    roles = ("user", "assistant")
    return [
        [
            {"role": roles[n % 2], "content": text}
            for n, text in enumerate(json.loads(line)["turns"])
        ]
        for line in lines
    ]


def log_probabilities(llm: LLM, ids: list[int]) -> np.ndarray:
    logits = llm.forward(ids).astype(np.float64)
    top = logits.max(-1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True)))


def cost(prompts: list[list[dict[str, str]]]) -> str:
    agree, kl = [], []
    with (
        LLM(ram="600MB", lookahead="off") as exact,
        LLM(ram="600MB", lookahead="off", cache_bits=3, approx_check="off") as narrow,
    ):
        for prompt in prompts:
            answer = exact.chat(prompt, SamplingParams(temperature=0, max_tokens=60))
            ids = [*exact.render(prompt), *answer.token_ids]
            p, q = log_probabilities(exact, ids), log_probabilities(narrow, ids)
            agree += (p.argmax(-1) == q.argmax(-1)).tolist()
            kl += (np.exp(p) * (p - q)).sum(-1).tolist()
    return (
        f"{len(agree)} positions: top-1 agreement {100 * np.mean(agree):.1f} %, "
        f"KL {np.mean(kl):.4f} on average, {np.quantile(kl, 0.99):.3f} at the 99th percentile"
    )


def hits(prompts: list[list[dict[str, str]]], bits: Bits, slots: int) -> tuple[float, str]:
    """Bytes of a slot; a row of the table."""
    settings = {"ram": "600MB", "lookahead": "off", "approx_check": "off", "cache_experts": slots}
    with LLM(**settings, cache_bits=bits) as llm:  # type: ignore[arg-type]
        for prompt in prompts:
            llm.chat(prompt, SamplingParams(temperature=0, max_tokens=60, ignore_eos=True))
        s = llm.stats()
        slot = max(llm.plan.slot_bytes.values())
        row = (
            f"| {bits} | {slots} | {100 * s.hits / (s.hits + s.misses):.1f} % | "
            f"{s.bytes_read / s.decode_tokens / 1e3:.0f} kB | "
            f"{s.decode_tokens / s.decode_seconds:.0f} |"
        )
    return slot, row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=60)
    prompts = conversations(parser.parse_args().prompts)
    print(cost(prompts))
    with LLM(ram="600MB") as llm:
        slots = int(SHARE * max(llm.plan.experts_per_layer.values()))
    print("| bits | slots a layer | hits | read a token | tok/s |\n|---|---|---|---|---|")
    stored, row = hits(prompts, "stored", slots)
    print(row)
    narrow, row = hits(prompts, 3, slots)
    print(row)
    print(hits(prompts, 3, int(slots * stored / narrow))[1])


if __name__ == "__main__":
    main()
