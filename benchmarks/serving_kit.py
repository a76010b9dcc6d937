"""What benchmarks of serving share: synthetic models that can be spoken to, `coli serve` over
them, and streams with the times of their chunks."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import colibri.text
from colibri.lab.shapes import find_shape
from colibri.lab.synthetic import Recipe, obtain
from colibri.llm import embedded_model

COLI = (sys.executable, "-c", "from colibri.cli import main; main()")
TEMPLATE = Path(colibri.text.__file__).parent / "templates" / "glm_moe_dsa.jinja"


def speaking_model(shape: str, bench_dir: Path, folder: Path, *, chats: bool) -> Path:
    """In `folder`: `coli bench`'s model of the shape with a tokenizer in which each id has a text.

    chats: the embedded model's tokenizer, with words that no prompt has for the ids beyond it, and
    a chat template. Else each id is a word, so that a token is a chunk of a stream.
    """
    recipe = Recipe(find_shape(shape))
    container = obtain(recipe, bench_dir, print)
    folder.mkdir()
    for file in container.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    size = recipe.shape.config["vocab_size"]
    tokenizer = json.loads((embedded_model() / "tokenizer.json").read_text("utf-8"))
    if chats:
        known = tokenizer["model"]["vocab"]
        known |= {f"Ġword{i}": i for i in range(max(known.values()) + 1, size)}
        for file in (embedded_model() / "tokenizer_config.json", TEMPLATE):
            name = "chat_template.jinja" if file == TEMPLATE else file.name
            (folder / name).write_bytes(file.read_bytes())
    else:
        words = {f"Ġword{i}": i for i in range(size)}
        tokenizer["model"] = {"type": "WordLevel", "vocab": words, "unk_token": "Ġword0"}
        tokenizer["added_tokens"] = []
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    return folder


@contextmanager
def served(model: Path, *flags: str) -> Iterator[str]:
    """The URL of a server of its own process, once it is ready."""
    process = subprocess.Popen(
        [*COLI, "serve", "--port", "0", "--model", str(model), *flags],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.match(r"serving \S+ at (http://\S+?):? ", line):
                print(line.strip())
                yield found[1].rstrip(":")
                return
        raise SystemExit("".join(said))
    finally:
        process.terminate()
        process.communicate()


@dataclass(frozen=True)
class Stream:
    """Chunks of a streamed answer with the seconds since the request was sent, and its usage."""

    chunks: Sequence[tuple[float, Any]]
    usage: Any

    @property
    def choices(self) -> list[tuple[float, Any]]:
        return [(at, chunk["choices"][0]) for at, chunk in self.chunks if chunk["choices"]]


def streamed(url: str, path: str, body: dict[str, Any]) -> Stream:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    asked = body | {"stream": True, "stream_options": {"include_usage": True}}
    payload = json.dumps(asked)  # before the clock runs
    begin = time.perf_counter()
    connection.request("POST", path, payload, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(response.read().decode())
    chunks: list[tuple[float, Any]] = []
    for line in response:
        if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
            chunks.append((time.perf_counter() - begin, json.loads(line[6:])))
    connection.close()
    if "error" in chunks[-1][1]:
        raise SystemExit(str(chunks[-1][1]))
    return Stream(chunks, next(c["usage"] for _, c in reversed(chunks) if c.get("usage")))
