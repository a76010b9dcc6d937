"""A sequence of 128k positions, by `make soak`: it takes what was planned, and its state has the
same bits however it was read."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

import golden

pytestmark = pytest.mark.alone

POSITIONS = 131_072
PROMPT = POSITIONS - 8
NEARNESS_BYTES = 48_000_000

RUN = """
import hashlib, json, sys
from colibri import LLM, SamplingParams
path, positions, prompt, settings = sys.argv[1], *map(int, sys.argv[2:4]), json.loads(sys.argv[4])
with LLM(path, context=positions, usage="off", **settings) as llm:
    ids = [(i * i + 7 * i) % 97 for i in range(prompt)]
    params = SamplingParams(temperature=0, max_tokens=positions, ignore_eos=True, logprobs=1)
    answer = llm.generate(ids, params)
    peak = llm.stats().peak_rss_bytes
    states = [held.state for held in llm._engine._states._idle]
    digest = hashlib.sha256()
    for layer in states[0].layers:
        for part in layer.state:
            digest.update(part.tobytes())
    print(json.dumps({
        "states": len(states),
        "length": states[0].length,
        "nbytes": states[0].nbytes,
        "state": digest.hexdigest(),
        "tokens": answer.token_ids,
        "logprobs": [one.logprob for one in answer.logprobs],
        "planned_state": llm.plan.state_bytes,
        "peak": peak,
        "plan": llm.plan.peak_bytes,
        "budget": llm.plan.budget_bytes,
    }))
"""


@pytest.mark.soak
@pytest.mark.parametrize("family", ["glm_moe_dsa", "glm5_next", "qwen3_5_moe"])
def test_128k_positions(family: str, tmp_path: Path) -> None:
    """With the least memory that works; then in long chunks that end within a pool, with a cache of
    another size."""
    path = long_model(family, tmp_path)
    refused = python(path, ram="10MB", prefill_chunk=250)
    least = re.search(r"CapacityError: .* the least that works is (\d+) MB", refused.stderr)
    assert least
    tight = ran(python(path, ram=f"{int(least[1]) + 2}MB", prefill_chunk=250))
    wide = ran(python(path, ram="3GB", prefill_chunk=1001, cache_experts=5))
    assert (wide["tokens"], wide["logprobs"]) == (tight["tokens"], tight["logprobs"])
    assert wide["state"] == tight["state"]
    for run in (tight, wide):
        assert (run["states"], run["length"]) == (1, POSITIONS - 1)  # the last is not read
        assert run["nbytes"] <= run["planned_state"]
        assert run["peak"] <= run["plan"] <= run["budget"]
        assert run["plan"] - run["peak"] < NEARNESS_BYTES


def long_model(family: str, target: Path) -> Path:
    """The checkpoint with room for so many positions; of glm_moe_dsa only the first layer chooses
    among them, and the others share that: each choice takes a minute."""
    source = golden.tiny(family)
    config = json.loads((source / "config.json").read_text())
    config.get("text_config", config)["max_position_embeddings"] = POSITIONS
    tensors = load_file(source / "model.safetensors")
    if family == "glm_moe_dsa":
        config["indexer_types"] = ["full"] + ["shared"] * (config["num_hidden_layers"] - 1)
        unused = re.compile(r"layers\.[1-9]\d*\.self_attn\.indexer\.")
        tensors = {name: data for name, data in tensors.items() if not unused.search(name)}
    (target / "config.json").write_text(json.dumps(config))
    save_file(tensors, target / "model.safetensors")
    return target


def python(path: Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    arguments = [str(path), str(POSITIONS), str(PROMPT), json.dumps(settings)]
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=False
    )


def ran(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result
