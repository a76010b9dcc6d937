"""What ends an answer: the model's own end tokens, each of them, and nothing else."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from server_kit import events

from colibri import LLM
from colibri.llm import embedded_model
from colibri.text.eos import eos_ids
from colibri.text.tokenizer import Tokenizer

QUESTION: Any = [{"role": "user", "content": "Describe a fox."}]
SPECIAL = sorted(Tokenizer.load(embedded_model()).special_ids)


def forced(http: httpx2.Client, token_id: int) -> tuple[dict[str, Any], Any]:
    """The choice and usage of an answer of this token alone; streamed it is the same."""
    body = {"messages": QUESTION, "temperature": 0, "max_tokens": 3}
    body |= {"logit_bias": {str(token_id): 100}}
    answer = http.post("/v1/chat/completions", json=body).json()
    choice: dict[str, Any] = answer["choices"][0]
    found = events(http.post("/v1/chat/completions", json=body | {"stream": True}))
    chunks = [data["choices"][0] for name, data in found[:-1] if name != ":"]
    assert "".join(c["delta"].get("content", "") for c in chunks) == choice["message"]["content"]
    assert chunks[-1]["finish_reason"] == choice["finish_reason"]
    return choice, answer["usage"]


@pytest.mark.parametrize("token_id", SPECIAL)
def test_end_tokens_end_it_and_other_marks_do_not(
    http: httpx2.Client, llm: LLM, token_id: int
) -> None:
    """B062, B063, B064: of a list each ends the turn, a role's mark that is none does not; what is
    a mark is never shown."""
    container = llm.container
    ends = eos_ids(container.config, container.generation_config, llm.tokenizer)
    assert len(ends) > 1
    assert ends < set(SPECIAL)
    choice, usage = forced(http, token_id)
    assert choice["message"]["content"] == ""
    assert "tool_calls" not in choice["message"]
    if token_id in ends:
        assert (choice["finish_reason"], usage["completion_tokens"]) == ("stop", 1)
    else:
        assert (choice["finish_reason"], usage["completion_tokens"]) == ("length", 3)
