"""A very long sequence and a very short one in the same steps."""

from __future__ import annotations

import json
from pathlib import Path

import golden
from colibri import LLM
from engine_kit import answer_of, ask, engine_of, run

LONG = [(7 * t + t // 5 + 3) % 100 for t in range(9000)]


def test_lengths_do_not_touch_each_other(tmp_path: Path) -> None:
    """B038: 9000 positions and 5, decoded together, are what each is alone."""
    settings = {"context": 20_000, "prefill_chunk": 1024, "prefix_cache": 0}
    for path in golden.tiny("olmoe").iterdir():
        (tmp_path / path.name).symlink_to(path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 20_000}))
    with LLM(tmp_path, context=20_000) as llm:
        want = []
        for prompt in (LONG, LONG[:5]):
            engine = engine_of(llm, **settings)
            request = ask(engine, prompt)
            run(engine)
            want.append(answer_of(request))
        engine = engine_of(llm, **settings)
        long = ask(engine, LONG)
        while not engine._running or engine._running[0].in_prefill:
            engine.step()
        short = ask(engine, LONG[:5])
        engine.step()
        assert [s.in_prefill for s in engine._running] == [False, False]
        run(engine)
        assert [answer_of(long), answer_of(short)] == want
