"""The exported checkpoint in transformers against the trainer's own model."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from scripts.train_demo.model import Model
from scripts.train_demo.template import prompt

TOLERANCE = 1e-4
_QUESTIONS = ["Tell me a story about a fox.", "What is 23 + 45?", "你好", "SQL for all users?"]


def _as_stored(model: Model) -> Model:
    """The model with weights rounded as export rounds them."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if not name.endswith("e_score_correction_bias"):
                value.copy_(value.bfloat16().float())
    model.eval()
    return model


@torch.no_grad()
def verify(model: Model, checkpoint: Path) -> float:
    """Largest logit difference in fp32 over prompts and 20 tokens generated after each.

    Changes `model`: its weights become those of the checkpoint. Raises SystemExit where the
    difference is above TOLERANCE or the chat template renders otherwise.
    """
    theirs = AutoModelForCausalLM.from_pretrained(
        checkpoint, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    if type(theirs).__name__ != "GlmMoeDsaForCausalLM":
        raise SystemExit(f"{checkpoint}: loaded as {type(theirs).__name__}")
    ours, worst = _as_stored(model), 0.0
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    template = AutoTokenizer.from_pretrained(checkpoint)
    for question in _QUESTIONS:
        text = template.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
        )
        if text != prompt([question]):
            raise SystemExit(f"chat template renders {text!r}, training saw {prompt([question])!r}")
        ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False).ids])
        ids = theirs.generate(ids, max_new_tokens=20, do_sample=False)
        worst = max(worst, float((theirs(ids).logits - ours(ids)).abs().max()))
    if not worst <= TOLERANCE:
        raise SystemExit(f"{checkpoint}: logits differ by {worst:.2e}, more than {TOLERANCE:g}")
    return worst
