"""The dashboard's files over HTTP, without a browser."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from server_kit import Running, raw_request, raw_response, serving

import colibri
from colibri import LLM
from colibri.server.page import Page

STATIC = Path(colibri.__file__).parent / "web" / "static"
KEY = "k-123"


@pytest.fixture(scope="module")
def paged(llm: LLM) -> Iterator[Running]:
    with serving(llm, page=True, api_key=KEY) as running:
        yield running


@pytest.fixture(scope="module")
def get(paged: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=paged.url) as client:
        yield client


def test_nothing_is_run_or_asked_for_that_is_not_a_file_here(get: httpx2.Client) -> None:
    headers = get.get("/").headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert get.get("/static/app.js").headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/static/app.js", "text/javascript; charset=utf-8"),
        ("/static/css/tokens.css", "text/css; charset=utf-8"),
        ("/static/icon.svg", "image/svg+xml"),
    ],
)
def test_files_are_what_they_are(get: httpx2.Client, path: str, kind: str) -> None:
    answer = get.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == kind
    file = STATIC / ("index.html" if path == "/" else path.removeprefix("/static/"))
    assert answer.content == file.read_bytes()


def test_every_file_the_page_names_is_there(get: httpx2.Client) -> None:
    named = re.findall(r'(?:href|src)="(static/[^"]+)"', get.get("/").text)
    assert len(named) > 5
    for path in named:
        assert get.get(f"/{path}").status_code == 200, path
    for script in STATIC.rglob("*.js"):
        for target in re.findall(r'from\s*"(\.[^"]+)"', script.read_text(encoding="utf-8")):
            assert (script.parent / target).is_file(), f"{script.name}: {target}"


def test_a_file_that_did_not_change_costs_no_bytes(get: httpx2.Client) -> None:
    first = get.get("/static/vendor/marked.js")
    tag = first.headers["etag"]
    again = get.get("/static/vendor/marked.js", headers={"if-none-match": f'"x", {tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == tag
    other = get.get("/static/vendor/marked.js", headers={"if-none-match": 'W/"other"'})
    assert other.status_code == 200


def test_compressed_for_whom_it_is_understood(paged: Running) -> None:
    plain = (STATIC / "vendor" / "marked.js").read_bytes()
    for accepts, packed in (("gzip, br", True), ("br", False), ("gzip;q=0", False)):
        with paged.connect() as sock:
            path = "/static/vendor/marked.js"
            header = f"Accept-Encoding: {accepts}"
            sock.sendall(raw_request(path, b"", header, method="GET"))
            status, body, _ = raw_response(sock)
        assert status == 200
        assert (gzip.decompress(body) if packed else body) == plain
        assert (len(body) < len(plain) / 2) == packed


@pytest.mark.parametrize(
    "path",
    [
        "/static/../page.py",
        "/static/%2e%2e/%2e%2e/server/page.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/",
        "/static/css",
        "/static/vendor/LICENSE-htm.txt%00.js",
        "/index.html",
    ],
)
def test_nothing_else_of_the_disk_is_to_be_had(paged: Running, path: str) -> None:
    with paged.connect() as sock:
        sock.sendall(raw_request(path, b"", f"X-Api-Key: {KEY}", method="GET"))
        status, body, _ = raw_response(sock)
    assert status == 404, body


def test_a_link_out_of_the_folder_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("1")
    (tmp_path / "secret").write_text("2")
    assert sorted(Page(tmp_path)._paths) == ["a.js"]


def test_files_need_no_key_and_the_model_does(get: httpx2.Client) -> None:
    assert get.get("/").status_code == 200
    assert get.get("/static/app.js").status_code == 200
    for path in ("/v1/models", "/v1/colibri/plan", "/static", "/metrics"):
        assert get.get(path).status_code == 401, path
    assert get.get("/v1/models", headers={"x-api-key": KEY}).status_code == 200


def test_by_a_foreign_name_there_is_no_page(get: httpx2.Client) -> None:
    assert get.get("/", headers={"host": "evil.example"}).status_code == 403
    assert get.get("/", headers={"origin": "http://evil.example"}).status_code == 403


def test_only_reading(get: httpx2.Client) -> None:
    assert get.post("/", headers={"x-api-key": KEY}).status_code == 405
    head = get.head("/static/app.js")
    assert (head.status_code, head.content) == (200, b"")


def test_without_being_asked_a_server_has_no_page(http: httpx2.Client) -> None:
    assert http.get("/").status_code == 404
    assert http.get("/static/app.js").status_code == 404
