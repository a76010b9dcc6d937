"""The embedded model: small enough to ship, honest in its quantisation."""

from pathlib import Path

from colibri.llm import embedded_model


def test_size() -> None:
    assert sum(f.stat().st_size for f in Path(embedded_model()).iterdir()) <= 16_000_000
