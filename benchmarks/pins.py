"""Hit rates with and without pins: `python -m benchmarks.pins`.

The embedded model answers prompts of 22 kinds (copying, arithmetic, facts, stories, Python, SQL,
...) that it was never trained on. Usage is learnt from one half of the prompts of each kind; the
other half is what is measured, with a cold cache, in a mixed order. `--kinds python,sql` learns and
measures these only, each by itself. A cell: hits, and in brackets the MB read a token.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from colibri import LLM, SamplingParams
from scripts.train_demo.chat.generate import held_out

PARAMS = SamplingParams(temperature=0, max_tokens=32)
SEEDS = range(3)  # of the prompts
LEARNT_TOKENS = 1500  # of prompts, at least: enough for `auto`

Prompts = list[list[dict[str, str]]]


def prompts(half: int, kinds: Sequence[str]) -> Prompts:
    """One half of the held-out prompts, mixed; none of the other half is among them."""
    items = (item for seed in SEEDS for item in held_out(seed))
    items = (item for item in items if not kinds or item["kind"] in kinds)
    distinct = list({repr(item["prompt"]): item for item in items}.values())
    chosen = [item["prompt"] for item in distinct[half::2]]
    random.Random(half).shuffle(chosen)
    roles = ("user", "assistant")
    return [
        [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        for texts in chosen
    ]


def answer(llm: LLM, conversations: Prompts) -> None:
    for messages in conversations:
        llm.chat(messages, PARAMS)


def measured(usage: Path, slots: int, pin: str, test: Prompts) -> str:
    """What is learnt while measuring is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "usage"
        file.write_bytes(usage.read_bytes())
        with LLM(cache_experts=slots, lookahead="off", usage=str(file), pin=pin) as llm:
            answer(llm, test)
            s = llm.stats()
    megabytes = s.bytes_read / 1e6 / (s.prefill_tokens + s.decode_tokens)
    return f"{100 * s.hits / (s.hits + s.misses):.1f} % ({megabytes:.3f})"


def table(kinds: Sequence[str], all_slots: Sequence[int], most: int) -> None:
    train, test = prompts(0, kinds), prompts(1, kinds)[:most]
    with tempfile.TemporaryDirectory() as folder:
        usage = Path(folder) / "usage"
        with LLM(usage=str(usage)) as llm:
            while llm.stats().prefill_tokens < LEARNT_TOKENS:
                answer(llm, train)
        what = ", ".join(kinds) or "mixed"
        for slots in all_slots:
            row = [measured(usage, slots, pin, test) for pin in ("0", "auto", "all")]
            print(f"| {what} | {len(test)} | {slots} | {' | '.join(row)} |", flush=True)


def main() -> None:
    logging.getLogger("colibri").setLevel(logging.ERROR)  # that `all` is clamped is known
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default="", help="one after the other, comma-separated")
    parser.add_argument("--slots", default="8,12,16,20,24", help="of 32 experts a layer")
    parser.add_argument("--most", type=int, default=120, help="prompts to measure")
    asked = parser.parse_args()
    print("| prompts | number | slots | pin 0 | auto | all |")
    print("|---|---|---|---|---|---|")
    for kind in asked.kinds.split(","):
        table([kind] if kind else [], [int(n) for n in asked.slots.split(",")], asked.most)


if __name__ == "__main__":
    main()
