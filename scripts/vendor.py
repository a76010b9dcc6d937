"""Bring what the dashboard uses of others into the tree: `python -m scripts.vendor` (needs npm), or
with --check only hold the files against the hashes in vendor.json, offline.

A browser is given the files as they lie here, so bare specifiers become relative paths, scripts
without exports get one, and references to source maps go.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = "src/colibri/web/static/vendor"
TESTS = "tests/web/vendor"
LOCK = ROOT / PAGE / "vendor.json"


@dataclass(frozen=True)
class Package:
    """files: path in the package -> name here. export: what a script defines, as its default."""

    name: str
    version: str
    license: str
    files: dict[str, str]
    export: str | None = None
    folder: str = PAGE
    license_file: str = "LICENSE"


PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "MIT",
        {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "preact-hooks.js"},
    ),
    Package("htm", "3.1.1", "Apache-2.0", {"dist/htm.module.js": "htm.js"}),
    Package(
        "@preact/signals-core", "1.14.5", "MIT", {"dist/signals-core.module.js": "signals-core.js"}
    ),
    Package("@preact/signals", "2.11.4", "MIT", {"dist/signals.module.js": "signals.js"}),
    Package(
        "uplot",
        "1.6.32",
        "MIT",
        {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"},
        export="uPlot",
    ),
    Package("marked", "18.2.1", "MIT", {"lib/marked.esm.js": "marked.js"}),
    Package(
        "dompurify",
        "3.5.0",
        "Apache-2.0 OR MPL-2.0",
        {"dist/purify.min.js": "purify.js"},
        export="globalThis.DOMPurify",
    ),
    Package(
        "@highlightjs/cdn-assets",
        "11.12.0",
        "BSD-3-Clause",
        {"highlight.min.js": "highlight.js"},
        export="hljs",
    ),
    Package("temml", "0.13.5", "MIT", {"dist/temml.min.js": "temml.js"}, export="temml"),
    Package("axe-core", "4.14.1", "MPL-2.0", {"axe.min.js": "axe.js"}, folder=TESTS),
)
SPECIFIERS = {
    "preact": "./preact.js",
    "preact/hooks": "./preact-hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
_IMPORT = re.compile(r"""(\bfrom|\bimport)\s*(["'])([^"']+)\2""")
_SOURCE_MAP = re.compile(rb"\n?(//|/\*)# sourceMappingURL=[^\n]*")


def adapted(content: bytes, package: Package, name: str) -> bytes:
    """A file of a package as a browser can take it from one folder."""
    if name.endswith(".js") and package.folder == PAGE:
        if package.export is not None:
            content += f"\nexport default {package.export};\n".encode()
        else:
            content = _IMPORT.sub(_relative, content.decode()).encode()
    return _SOURCE_MAP.sub(b"", content)


def _relative(found: re.Match[str]) -> str:
    keyword, quote, target = found.groups()
    if target not in SPECIFIERS:
        raise SystemExit(f"a module imports {target!r}, which is not vendored")
    return f"{keyword}{quote}{SPECIFIERS[target]}{quote}"


def fetch(package: Package, known: dict[str, Any] | None) -> dict[str, Any]:
    """Write the files of a package; its entry in the lock."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{package.name}@{package.version}"
        subprocess.run(
            ["npm", "pack", "--silent", wanted], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        (archive,) = Path(folder).iterdir()
        digest = hashlib.sha512(archive.read_bytes()).digest()
        integrity = "sha512-" + base64.b64encode(digest).decode()
        if known and known["version"] == package.version and known["integrity"] != integrity:
            raise SystemExit(
                f"{wanted} is not what it was: {integrity}, locked {known['integrity']}"
            )
        files = {}
        with tarfile.open(archive) as tar:
            for inside, name in {**package.files, package.license_file: _license(package)}.items():
                member = tar.extractfile(f"package/{inside}")
                assert member is not None, f"{wanted} has no {inside}"
                content = adapted(member.read(), package, name)
                target = ROOT / package.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                files[f"{package.folder}/{name}"] = hashlib.sha256(content).hexdigest()
    return {
        "version": package.version,
        "license": package.license,
        "integrity": integrity,
        "sha256": files,
    }


def _license(package: Package) -> str:
    return f"LICENSE-{package.name.strip('@').replace('/', '-')}.txt"


def problems(root: Path = ROOT) -> list[str]:
    """What of the vendored files is not as locked; offline."""
    lock = json.loads((root / PAGE / "vendor.json").read_text(encoding="utf-8"))
    found = [
        f"{package.name}: scripts/vendor.py says {package.version}, vendor.json something else"
        for package in PACKAGES
        if lock.get(package.name, {}).get("version") != package.version
    ]
    hashes = {path: h for entry in lock.values() for path, h in entry["sha256"].items()}
    for folder in (PAGE, TESTS):
        there = {path.relative_to(root).as_posix() for path in (root / folder).iterdir()}
        found += [
            f"{path}: not in vendor.json"
            for path in sorted(there - hashes.keys() - {f"{PAGE}/vendor.json"})
        ]
    for path, known in sorted(hashes.items()):
        file = root / path
        if not file.is_file():
            found.append(f"{path}: missing")
        elif hashlib.sha256(file.read_bytes()).hexdigest() != known:
            found.append(f"{path}: not the file whose hash is in vendor.json")
    return found


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        found = problems()
        print("".join(f"{line}\n" for line in found), end="")
        return bool(found)
    known = json.loads(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else {}
    lock = {package.name: fetch(package, known.get(package.name)) for package in PACKAGES}
    LOCK.write_text(json.dumps(lock, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
