import os

import pytest


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here loses power: the disk need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
