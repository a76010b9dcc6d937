"""A model without arithmetic, and `coli` run inside the test's own process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from colibri.cli import app
from colibri.config import EngineConfig


@dataclass(frozen=True)
class Stats:
    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    hits: int = 0
    misses: int = 0
    bytes_read: int = 0
    read_seconds: float = 0.0
    wait_seconds: float = 0.0
    prefetch_reads: int = 0
    prefetch_useful: int = 0
    prefetch_wasted_bytes: int = 0
    prefetch_expired: int = 0
    lookahead_missing: int = 0
    lookahead_right: int = 0
    guard_shrinks: int = 0
    guard_bytes: int = 0
    loaded_rss_bytes: int = 40_000_000
    rss_bytes: int = 50_000_000
    peak_rss_bytes: int = 60_000_000
    approx_tokens: int = 0
    approx_agreed: int = 0
    approx_kl: float = 0.0
    approx_seconds: float = 0.0
    approx_bytes_read: int = 0
    experts_chosen: int = 0
    experts_swapped: int = 0
    drives: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Params:
    temperature: float = 1.0
    max_tokens: int = 256
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logit_bias: dict[int, float] = field(default_factory=dict)
    structure: Any = None


class FakeLLM:
    """Answers with `pieces`; an exception among them is raised in its place."""

    def __init__(self) -> None:
        self.pieces: list[Any] = ["Hello", " world", "."]
        self.progress: list[Any] = []
        self.finish_reason = "stop"
        self.requests: list[Any] = []
        self.reasoning: list[str] = []  # before the pieces
        self.options: list[Any] = []
        self.params: list[Any] = []
        self.configs: list[EngineConfig] = []
        self.closed = False
        self.cancelled = 0
        self.path = Path()
        self.load_line = "fake: int4-gs64"
        self.default_params = Params()
        self.plan = SimpleNamespace(
            lines=lambda: ["budget 1 GB"], notes=[], budget_bytes=10**9, peak_bytes=9 * 10**8
        )
        self._stats = Stats()
        self.counted: dict[str, int] = {}  # besides

    def from_config(
        self, config: EngineConfig, *, text: bool = True, on_load: Any = None
    ) -> FakeLLM:
        self.configs.append(config)
        return self

    def __enter__(self) -> FakeLLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def stats(self) -> Stats:
        return self._stats

    def stream(self, prompt: Any, params: Any, *, on_progress: Any = None) -> Iterator[Any]:
        self.requests.append(prompt)
        self.params.append(params)
        return self._chunks(on_progress)

    def stream_chat(
        self, messages: Any, params: Any, *, on_progress: Any = None, **options: Any
    ) -> Iterator[Any]:
        self.options.append(options)
        return self.stream([dict(m) for m in messages], params, on_progress=on_progress)

    def _chunks(self, on_progress: Any) -> Iterator[Any]:
        finished = False
        try:
            for event in self.progress if on_progress else []:
                on_progress(event)
            for text in self.reasoning:
                yield SimpleNamespace(text="", reasoning=text, token_ids=(7,), finish_reason=None)
            for number, piece in enumerate(self.pieces, start=1):
                if isinstance(piece, BaseException):
                    raise piece
                self._stats = replace(
                    self._stats,
                    prefill_tokens=4,
                    decode_tokens=self._stats.decode_tokens + 1,
                    decode_seconds=self._stats.decode_seconds + 0.5,
                    hits=self._stats.hits + 3,
                    misses=self._stats.misses + 1,
                    **self.counted,
                )
                last = number == len(self.pieces)
                yield SimpleNamespace(
                    text=piece,
                    reasoning="",
                    token_ids=(100 + number,),
                    finish_reason=self.finish_reason if last else None,
                )
            finished = True
        finally:
            self.cancelled += not finished


@dataclass
class Outcome:
    code: int
    out: str
    err: str


Coli = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("COLI_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeLLM:
    """Commands that load a model get this one; its directory is the embedded model's."""
    fake = FakeLLM()
    fake.path = tmp_path / "demo"
    fake.path.mkdir()
    (fake.path / "config.json").write_text('{"model_type": "olmoe"}')
    (fake.path / "tokenizer.json").write_text("{}")
    (fake.path / "chat_template.jinja").write_text("{{ messages }}")
    module = SimpleNamespace(
        LLM=fake,
        embedded_model=lambda: fake.path,
        model_directory=lambda named: fake.path if named is None else Path(named),
    )
    monkeypatch.setitem(sys.modules, "colibri.llm", module)
    return fake


@pytest.fixture
def coli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    def run(*arguments: str, stdin: bytes | Sequence[str] = b"") -> Outcome:
        data = stdin if isinstance(stdin, bytes) else "".join(f"{s}\n" for s in stdin).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        code = app.run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
