from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsync takes most of a tiny conversion; only a power cut could tell the difference."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
