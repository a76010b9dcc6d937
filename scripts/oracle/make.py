"""Write tiny checkpoints with transformers' logits: `python -m scripts.oracle.make OUT`.

Needs torch, transformers and safetensors (`make oracle` sets up an environment for them).
Each model lands twice: OUT/<family>-<seed>/f32 and .../bf16. The second has weights cast to bf16
and the logits of those cast weights in fp32: a comparison sees the engine's error, not the cast's.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from scripts.oracle.reference import Reference, write
from scripts.oracle.shapes import FAMILIES, draw, released_style, vocabulary

_CLASSES = {
    "olmoe": "Olmoe",
    "mixtral": "Mixtral",
    "qwen2_moe": "Qwen2Moe",
    "qwen3_moe": "Qwen3Moe",
    "qwen3_5_moe": "Qwen3_5Moe",
    "glm_moe_dsa": "GlmMoeDsa",
    "glm5_next": "Glm5Next",
}
_CONFIGS = {"qwen3_5_moe": "TextConfig"}
_MODELS = {"glm5_next": "ForConditionalGeneration"}  # its text model has no class of its own
_MAX_NEW = 6
_ATTEMPTS = 50
# A reference must not sit on the edge of a discrete choice (expert, selected position, token):
# noise above fp32 rounding may move its logits only this much.
_NOISE, _SETTLED, _MARGIN = 1e-6, 1e-3, 5e-3


def _build(family: str, seed: int) -> nn.Module:
    name = _CLASSES[family]
    config_class = getattr(transformers, name + _CONFIGS.get(family, "Config"))
    config = config_class(**draw(family, seed), attn_implementation="eager")
    model_class = getattr(transformers, name + _MODELS.get(family, "ForCausalLM"))
    return model_class(config).float().eval()


def _floats(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Everything a checkpoint stores: parameters, and the router's correction bias (a buffer)."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return [(n, t) for n, t in named if t.is_floating_point() and "inv_freq" not in n]


def _randomise(model: nn.Module, g: torch.Generator) -> None:
    """Random everywhere, so that no norm, bias or gate is trivially one or zero."""
    with torch.no_grad():
        for _, t in _floats(model):
            noise = torch.randn(t.shape, generator=g)
            if t.ndim > 1:
                t.copy_(noise * t.shape[-1] ** -0.5)
            else:
                t.add_(0.1 * noise)


def _logits(model: nn.Module, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    return logits.float()


def _answer(model: nn.Module, prompt: list[int]) -> Reference | None:
    """The reference, or None when a greedy step is too close to call."""
    ids = list(prompt)
    for _ in range(_MAX_NEW):
        best = _logits(model, ids)[-1].topk(2)
        if float(best.values[0] - best.values[1]) < _MARGIN:
            return None
        ids.append(int(best.indices[0]))
    logits = _logits(model, ids).numpy()
    return Reference(prompt, ids[len(prompt) :], logits[: len(prompt)], logits[-1])


def _settled(model: nn.Module, ids: list[int], g: torch.Generator) -> bool:
    before = _logits(model, ids)
    for _ in range(3):
        noisy = copy.deepcopy(model)
        with torch.no_grad():
            for _, t in _floats(noisy):
                t.mul_(1 + _NOISE * torch.randn(t.shape, generator=g))
        if float((_logits(noisy, ids) - before).abs().max()) > _SETTLED:
            return False
    return True


def _checked_answer(model: nn.Module, prompt: list[int], g: torch.Generator) -> Reference | None:
    ref = _answer(model, prompt)
    if ref is None or not _settled(model, prompt + ref.greedy_ids, g):
        return None
    return ref


def _rounded(model: nn.Module) -> nn.Module:
    """A copy with weights that bf16 can hold; the router's correction bias stays as it is."""
    rounded = copy.deepcopy(model)
    with torch.no_grad():
        for name, t in _floats(rounded):
            if not name.endswith("e_score_correction_bias"):
                t.copy_(t.bfloat16().float())
    return rounded


def _save(model: nn.Module, out: Path, *, bf16: bool, as_released: bool) -> None:
    """`as_released`: sharded with an index and the older config spelling, else one file."""
    stored: Any = copy.deepcopy(model)
    if bf16:
        kept = {n: t.clone() for n, t in _floats(model) if n.endswith("e_score_correction_bias")}
        stored = stored.bfloat16()
        for name, t in kept.items():
            owner, _, leaf = name.rpartition(".")
            setattr(stored.get_submodule(owner), leaf, t)
    shutil.rmtree(out, ignore_errors=True)
    stored.save_pretrained(out, max_shard_size="300KB" if as_released else "1GB")
    if as_released:
        path = out / "config.json"
        path.write_text(json.dumps(released_style(json.loads(path.read_text())), indent=2) + "\n")


def _make(family: str, seed: int, out: Path) -> str:
    for attempt in range(_ATTEMPTS):
        g = torch.Generator().manual_seed(seed * 1000 + attempt)
        model = _build(family, seed)
        _randomise(model, g)
        length = int(torch.randint(17, 43, (1,), generator=g))
        vocab = vocabulary(draw(family, seed))
        prompt = torch.randint(3, vocab, (length,), generator=g).tolist()
        cast = _rounded(model)
        exact, rounded = [_checked_answer(m, prompt, g) for m in (model, cast)]
        if exact is None or rounded is None:
            continue
        for kind, m, ref in (("f32", model, exact), ("bf16", cast, rounded)):
            directory = out / f"{family}-{seed}" / kind
            _save(m, directory, bf16=kind == "bf16", as_released=bool(seed % 2))
            write(directory, ref)
        return f"{family}-{seed}: {length} tokens, attempt {attempt + 1}"
    raise SystemExit(f"{family}, seed {seed}: no settled model in {_ATTEMPTS} attempts")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write tiny checkpoints with reference logits.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--family", action="append", choices=FAMILIES, help="default: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="shape and weights")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for family in args.family or FAMILIES:
        for seed in args.seeds:
            print(_make(family, seed, args.out), flush=True)


if __name__ == "__main__":
    main()
