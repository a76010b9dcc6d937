"""An agent's session over HTTP: `python -m benchmarks.serving_agent BENCH_DIR [SHAPE [TOKENS]]`.

A system message of TOKENS tokens and two tools; TURNS turns in each of which the model has to call
one of them (`tool_choice: required`, its call enforced), and the next message is its result. A line
a turn: the prompt's tokens, those known from the turn before, and the time from the request to the
first token; then the later turns' times as shares of the first one's.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.serving_kit import Stream, served, speaking_model, streamed
from colibri.llm import embedded_model
from colibri.text.tokenizer import Tokenizer

TURNS, RESULT_TOKENS = 10, 200
WORDS = ("the", "fox", "small", "bird", "of", "reads", "file", "in", "tree", "river", "old")
CITIES = {"type": "string", "enum": ["Oslo", "Rome", "Lima"]}


def tool(name: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"city": CITIES},
        "required": ["city"],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


class Texts:
    """Made up, of so many tokens, and no two alike."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.load(embedded_model())
        self._random = random.Random(0)

    def of(self, tokens: int) -> str:
        words = self._random.choices(WORDS, k=tokens)
        text = " ".join(words)
        ids = self._tokenizer.encode(text, add_special_tokens=False)[:tokens]
        return self._tokenizer.decode(ids)


def first_token_seconds(answer: Stream) -> float:
    """A call is sent when it is whole, the log-probability of its first token at once."""
    return next(at for at, choice in answer.choices if choice.get("logprobs"))


def call_of(answer: Stream) -> dict[str, Any]:
    calls = [c for _, choice in answer.choices for c in choice["delta"].get("tool_calls") or ()]
    assert len(calls) == 1, answer.choices
    assert answer.choices[-1][1]["finish_reason"] == "tool_calls"
    return {name: calls[0][name] for name in ("id", "type", "function")}


def main(bench_dir: Path, shape: str, preamble: int) -> None:
    texts = Texts()
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": texts.of(preamble)},
        {"role": "user", "content": "What is the weather like, city by city?"},
    ]
    body = {
        "tools": [tool("weather"), tool("forecast")],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning_effort": "none",
        "logprobs": True,
        "temperature": 0,
        "max_tokens": 64,
    }
    times: list[float] = []
    context = ("--context", str(preamble + 8192), "--usage", "off")
    with tempfile.TemporaryDirectory() as scratch:
        model = speaking_model(shape, bench_dir, Path(scratch) / "model", chats=True)
        with served(model, *context) as url:
            for turn in range(1, TURNS + 1):
                answer = streamed(url, "/v1/chat/completions", body | {"messages": messages})
                times.append(first_token_seconds(answer))
                report(turn, answer, times)
                call = call_of(answer)
                result = {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "content": texts.of(RESULT_TOKENS),
                }
                messages += [{"role": "assistant", "tool_calls": [call]}, result]
    later = [seconds / times[0] for seconds in times[1:]]
    print(f"second turn {later[0]:.2%} of the first, all later ones at most {max(later):.2%}")


def report(turn: int, answer: Stream, times: list[float]) -> None:
    prompt = answer.usage["prompt_tokens"]
    known = answer.usage["prompt_tokens_details"]["cached_tokens"]
    share = times[-1] / times[0]
    print(
        f"turn {turn:2}: prompt {prompt} tokens, {known} known, first token after "
        f"{times[-1]:.3f} s ({share:.2%})",
        flush=True,
    )


if __name__ == "__main__":
    given = sys.argv[2:]
    main(
        Path(sys.argv[1]),
        given[0] if given else "qwen3-30b-a3b:2",
        int(given[1]) if len(given) > 1 else 20_000,
    )
