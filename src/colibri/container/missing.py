"""How much of a model has not been downloaded yet."""

from pathlib import Path

from colibri.container.reader import Container


def without_data(container: Container) -> tuple[int, int]:
    """How many of the model's files are missing or end before their last tensor does, and how many
    there are."""
    ends: dict[Path, int] = {}
    for file, end in (place for t in container.trunk.values() for place in t.ends):
        ends[file] = max(ends.get(file, 0), end)
    for layer in container.expert_layers().values():
        for span in (span for spans in layer.spans for span in spans):
            ends[span.file] = max(ends.get(span.file, 0), span.offset + span.needed)
    short = sum(not file.is_file() or file.stat().st_size < end for file, end in ends.items())
    return short, len(ends)
