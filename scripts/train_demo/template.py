"""Special tokens and the chat template, in the GLM layout."""

from __future__ import annotations

from collections.abc import Sequence

SPECIAL_TOKENS = [
    *("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>"),
    *("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<think>", "</think>"),
]
END = "<|endoftext|>"
START = "[gMASK]<sop>"
ROLES = ("<|user|>", "<|assistant|>")
STOP_TOKENS = (END, "<|user|>", "<|observation|>")

JINJA = (
    "[gMASK]<sop>{%- for m in messages -%}<|{{ m['role'] }}|>{{ m['content'] }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)


def token_id(token: str) -> int:
    """Special tokens come first in the vocabulary, in order."""
    return SPECIAL_TOKENS.index(token)


def render(messages: Sequence[str], system: str | None = None) -> str:
    """Messages of user and assistant in turn, without an end."""
    turns = [ROLES[i % 2] + text for i, text in enumerate(messages)]
    return START + (f"<|system|>{system}" if system else "") + "".join(turns)


def prompt(messages: Sequence[str], system: str | None = None) -> str:
    return render(messages, system) + ROLES[1]
