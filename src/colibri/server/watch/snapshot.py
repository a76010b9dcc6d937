"""What the engine does at this moment, as JSON has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colibri.llm import LLM


def snapshot(llm: LLM) -> dict[str, Any]:
    status = llm.status()
    return {
        "running": [asdict(request) for request in status.running],
        "waiting": status.waiting,
        "kept_tokens": status.kept_tokens,
        "context": status.context,
    }


def counters(llm: LLM) -> dict[str, Any]:
    """Since the model was loaded."""
    stats = llm.stats()
    return {
        "prefill_tokens": stats.prefill_tokens,
        "prefill_seconds": stats.prefill_seconds,
        "decode_tokens": stats.decode_tokens,
        "decode_seconds": stats.decode_seconds,
        "hits": stats.hits,
        "misses": stats.misses,
        "bytes_read": stats.bytes_read,
        "wait_seconds": stats.wait_seconds,
        "rss_bytes": stats.rss_bytes,
    }
