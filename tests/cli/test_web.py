"""`coli web`: the server of `coli serve` with its page, and a browser where one can be seen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from colibri.cli.web import has_display, page_url

COLI = [sys.executable, "-c", "from colibri.cli import main; main()"]


@pytest.mark.parametrize(
    ("flags", "opens"), [(["--no-open"], False), ([], True)], ids=["no-open", "open"]
)
def test_page_and_api_on_one_port(tmp_path: Path, flags: list[str], opens: bool) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\nprintf %s "$1" > "{opened}.new"\nmv "{opened}.new" "{opened}"\n'
    )
    browser.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COLI_")}
    environ = kept | {
        "XDG_RUNTIME_DIR": str(tmp_path),
        "COLI_USAGE": "off",
        "BROWSER": f"{browser} %s",
    }
    command = [*COLI, "web", "--port", "0", "--ram", "700MB", "--context", "512", *flags]
    process = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("serving "):
                break
        found = re.search(r"the dashboard is at (http://127\.0\.0\.1:\d+/)\n", said)
        assert found, said
        url = found[1]
        assert "<title>colibri</title>" in httpx2.get(url).text
        assert httpx2.get(f"{url}v1/models").json()["data"]
        if opens:
            for _ in range(200):
                if opened.exists():
                    break
                httpx2.get(f"{url}health/live")
        assert opened.exists() == opens
        if opens:
            assert opened.read_text() == url
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("environ", "platform", "shown"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "darwin", True),
        ({}, "win32", True),
    ],
)
def test_a_browser_opens_where_it_is_seen(
    environ: dict[str, str], platform: str, shown: bool
) -> None:
    assert has_display(environ, platform) == shown


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/"),
        ("http://0.0.0.0:8000", "http://127.0.0.1:8000/"),
        ("http://[::]:8000", "http://[::1]:8000/"),
        ("http://[::1]:8000", "http://[::1]:8000/"),
    ],
)
def test_an_address_for_the_browser(url: str, page: str) -> None:
    assert page_url(url) == page
