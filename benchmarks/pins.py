"""Hit rates with and without pins: `python -m benchmarks.pins`.

The embedded model answers prompts of 22 kinds (copying, arithmetic, facts, stories, Python, SQL, ...) that it was never
trained on. Usage is learnt from one half of the prompts of each kind; the other half is what is
measured, with a cold cache, in a mixed order. `--kinds python,sql` learns from and measures those
only; `--from KINDS` learns from others than it measures.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from colibri import LLM, SamplingParams
from scripts.train_demo.chat.generate import held_out

PARAMS = SamplingParams(temperature=0, max_tokens=32)
SEEDS = range(3)  # of the prompts

Prompts = list[list[dict[str, str]]]


def prompts(half: int, kinds: Sequence[str]) -> Prompts:
    """One half of the held-out prompts, mixed; none of the other half is among them."""
    items = [
        item for seed in SEEDS for item in held_out(seed) if not kinds or item["kind"] in kinds
    ]
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


def measured(
    usage: Path | None, slots: int, pin: str, policy: str, test: Prompts
) -> tuple[float, float]:
    """Hit rate, and MB read a token. What is learnt while measuring is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "usage"
        if usage is not None:
            file.write_bytes(usage.read_bytes())
        settings = {"cache_experts": slots, "lookahead": "off", "usage": str(file)}
        with LLM(None, pin=pin, **settings) as llm:  # type: ignore[arg-type]
            answer(llm, test)
            s = llm.stats()
    tokens = s.prefill_tokens + s.decode_tokens
    return s.hits / (s.hits + s.misses), s.bytes_read / 1e6 / tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default="", help="measure these only, comma-separated")
    parser.add_argument("--from", dest="learn", default=None, help="learn from these instead")
    parser.add_argument("--slots", default="6,8,12,16,20,24", help="of 32 experts a layer")
    parser.add_argument("--policies", default="lru")
    parser.add_argument("--most", type=int, default=80, help="prompts to measure")
    asked = parser.parse_args()
    kinds = [kind for kind in asked.kinds.split(",") if kind]
    learn = kinds if asked.learn is None else [k for k in asked.learn.split(",") if k]
    train, test = prompts(0, learn), prompts(1, kinds)[: asked.most]
    with tempfile.TemporaryDirectory() as folder:
        usage = Path(folder) / "usage"
        with LLM(None, usage=str(usage)) as llm:
            answer(llm, train)
            s = llm.stats()
        print(f"learnt from {len(train)} prompts, {s.prefill_tokens + s.decode_tokens} tokens;")
        print(f"measured with {len(test)} others")
        print("| policy | slots | no pins | auto, nothing known | auto | all |")
        print("|---|---|---|---|---|---|")
        for policy in asked.policies.split(","):
            for slots in map(int, asked.slots.split(",")):
                row = [
                    measured(None, slots, "0", policy, test),
                    measured(None, slots, "auto", policy, test),
                    measured(usage, slots, "auto", policy, test),
                    measured(usage, slots, "all", policy, test),
                ]
                cells = (f"{100 * hits:.1f} % ({mb:.3f})" for hits, mb in row)
                print(f"| {policy} | {slots} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
