"""The frame of the pages that the lab writes: one file that needs nothing else."""

from __future__ import annotations

from html import escape
from importlib.resources import files


def document(title: str, heading: str, words: str, body: str) -> str:
    """The HTML document. body is HTML; the other texts are escaped here."""
    style = (files("colibri.lab") / "report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main><h1>{escape(heading)}</h1><p>{escape(words)}</p>{body}</main></body></html>\n"
    )


def section(title: str, words: str, content: str) -> str:
    """title, words and content are HTML."""
    return f"<section><h2>{title}</h2><p>{words}</p>{content}</section>"
