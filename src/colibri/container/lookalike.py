"""What a file is that is not what it should be: usually a download that went wrong."""

from __future__ import annotations

from colibri.words import count

_MAGIC = (
    (b"version https://git-lfs", "a Git LFS pointer; fetch the file itself (git lfs pull)"),
    (
        b"PK\x03\x04",
        "a zip archive, perhaps a PyTorch checkpoint; unpack it or get the real file",
    ),
    (b"\x80\x02", "a Python pickle, perhaps an old PyTorch checkpoint"),
    (b"GGUF", "a GGUF file"),
    (b"\x1f\x8b", "gzip data; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd data; unpack it first"),
    (b"\xfd7zXZ", "xz data; unpack it first"),
    (b"BZh", "bzip2 data; unpack it first"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x7fELF", "a program"),
)
BLANKS = b"\xef\xbb\xbf \t\r\n"


def known(head: bytes) -> str | None:
    """What begins so, if it can be nothing else. A "<" is left to those who read no templates."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), None)


def no_json(data: bytes) -> str | None:
    """What stands where JSON should; None where it may be JSON, or text of which a parser says
    more."""
    text = data[:512].lstrip(BLANKS)
    other = text[:1] == b"<" or known(text) is not None
    zeros = bool(text) and not text.strip(b"\0")
    return looks_like(text, len(text)) if other or zeros else None


def looks_like(head: bytes, size: int) -> str:
    """Names the content by its first bytes (up to 512 of `size`)."""
    if size == 0:
        return "it is empty; download it again"
    if not head.strip(b"\0"):
        return "it begins with zeros, like a download that never arrived"
    if name := known(head):
        return f"it is {name}"
    text = head.lstrip(BLANKS)
    if text[:1] == b"<":
        return "it is an HTML or XML page, perhaps a server's error message"
    if text[:1] == b"{":
        return f"it is JSON text: {_excerpt(text)}"
    if size < 8:
        return f"it has only {count(size, 'byte')}"
    if is_text(text):
        return f"it is text: {_excerpt(text)}"
    return "its first bytes are no safetensors header"


def is_text(data: bytes) -> bool:
    return (
        all(b in b"\t\r\n" or b >= 32 for b in data)
        and data.decode("utf-8", "replace").count("\ufffd") <= 1
    )


def _excerpt(data: bytes) -> str:
    return ascii(data[:60].decode("utf-8", "replace"))
