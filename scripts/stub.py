"""Does src/colibri/_native.pyi say what the compiled module says? `python -m scripts.stub`.

The stub is written by hand, for readers; this compares it, function by function, with what
nanobind reports: names, parameters in order, element types, scalars, results.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).parents[1] / "src" / "colibri" / "_native.pyi"
Signature = tuple[tuple[tuple[str, str], ...], str]  # (name, kind) of each parameter, result


def signatures(text: str) -> dict[str, Signature]:
    tree = ast.parse(text)
    aliases = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    return {
        node.name: (
            tuple((arg.arg, _kind(arg.annotation, aliases)) for arg in node.args.args),
            _kind(node.returns, aliases),
        )
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def _kind(annotation: ast.expr | None, aliases: dict[str, ast.expr]) -> str:
    """A type in words common to both: "float32" for an array of it, "array" for any array."""
    match annotation:
        case ast.Name(id) if id in aliases:
            return _kind(aliases[id], aliases)
        case ast.Name("NDArray") | ast.Attribute(attr="NDArray"):
            return "array"
        case ast.Subscript(value=ast.Name("Annotated"), slice=ast.Tuple(elts=[inner, *_])):
            return _kind(inner, aliases)
        case ast.Subscript(value=value, slice=item) if _kind(value, aliases) == "array":
            return "array" if ast.unparse(item) == "Any" else ast.unparse(item).rpartition(".")[2]
        case ast.Subscript(value=ast.Name("Sequence") | ast.Attribute(attr="Sequence"), slice=item):
            return f"Sequence[{_kind(item, aliases)}]"
        case ast.BinOp(left=left, right=right):
            return f"{_kind(left, aliases)} | {_kind(right, aliases)}"
        case None:
            return "missing"
        case _:
            return ast.unparse(annotation)


def reported() -> str:
    """The stub that nanobind makes from the compiled module."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "colibri._native", "-O", folder],
            check=True,
        )
        return (Path(folder) / "_native.pyi").read_text(encoding="utf-8")


def differences(written: dict[str, Signature], real: dict[str, Signature]) -> list[str]:
    lines = [f"{name}: in the stub, not in the module" for name in sorted(written.keys() - real)]
    lines += [f"{name}: in the module, not in the stub" for name in sorted(real.keys() - written)]
    for name in sorted(written.keys() & real):
        if written[name] != real[name]:
            lines.append(f"{name}: the stub says {written[name]}, the module {real[name]}")
    return lines


def main() -> int:
    lines = differences(signatures(STUB.read_text(encoding="utf-8")), signatures(reported()))
    for line in lines:
        print(line)
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
