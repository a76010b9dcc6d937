"""Paths in answers: the name stays, the folder goes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from colibri.server.http.places import places, without_places
from colibri.server.sampling import notice_of

FOLDERS = ("/home/ann/my models/demo", "/home/ann", "/tmp")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ann/my models/demo/a.jinja: no system", "a.jinja: no system"),
        ("make it with: coli atlas build /home/ann/my models/demo", None),
        ("'/home/ann/.local/share/x.usage' is damaged", "'x.usage' is damaged"),
        ("/tmp/a/b and /tmp/c, /tmp", "b and c, tmp"),
        ("use /v1/score, not /tmpx or /homes/ann", "use /v1/score, not /tmpx or /homes/ann"),
        ("https://a.b/tmp/c", "https://a.b/tmp/c"),
    ],
)
def test_only_folders_of_the_server_are_cut(text: str, expected: str | None) -> None:
    assert without_places(text, FOLDERS) == (expected or "make it with: coli atlas build demo")


def test_a_notice_is_cut_too() -> None:
    answer: Any = SimpleNamespace(
        request=SimpleNamespace(prompt_ids=[1]), notes=["tools: see /home/ann/x.jinja"]
    )
    service: Any = SimpleNamespace(
        llm=SimpleNamespace(plan=SimpleNamespace(context=9)), places=lambda: FOLDERS
    )
    assert notice_of(service, [answer], None) == {"x-colibri-notice": "tools: see x.jinja"}


def test_home_is_known_before_a_model_is_there() -> None:
    assert str(Path.home()) in places(None) or str(Path.home()) == "/"
