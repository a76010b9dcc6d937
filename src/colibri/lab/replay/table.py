"""A replay's outcome as lines, as a chart and as a page that needs nothing else."""

from __future__ import annotations

from html import escape

from colibri.lab import units
from colibri.lab.lines import LineChart
from colibri.lab.page import document, section
from colibri.lab.replay.outcome import Outcome, Row
from colibri.words import count

_HEADS = ("policy", "scope", "slots", "ratio", "hits", "in decode", "misses", "read", "wasted")


def lines(outcome: Outcome) -> list[str]:
    """Hit rates of all calls and of decode alone, bytes read, bytes read ahead in vain."""
    cells = [_HEADS, *map(_cells, outcome.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADS))]
    head = (
        f"{outcome.model}: {count(outcome.tokens, 'decoded token')}, "
        f"{count(outcome.calls, 'call')} of layers, "
        f"{count(outcome.experts_per_token, 'expert')} a token"
    )
    return [head, *(_line(row, widths) for row in cells)]


def chart(outcome: Outcome) -> LineChart:
    """Hit rate in decode by capacity, a line a policy and scope."""
    # A trace of a prompt alone has no decode.
    rows = outcome.rows
    decoded = any(row.decode_hits + row.decode_misses for row in rows)
    sizes = sorted({(row.ratio, row.capacity) for row in rows})
    found = {
        (_name(row), row.capacity): row.decode_hit_rate if decoded else row.hit_rate for row in rows
    }
    names = dict.fromkeys(map(_name, rows))
    series = {name: [found.get((name, text)) for _, text in sizes] for name in names}
    what = "hit rate in decode" if decoded else "hit rate"
    labels = [f"{ratio:.2g}" for ratio, _ in sizes]
    return LineChart(f"{outcome.model}: {what}", "slots / experts a token", labels, series)


def page(outcome: Outcome) -> str:
    """The HTML document."""
    head = "".join(f"<th{_class(i)}>{escape(h)}</th>" for i, h in enumerate(_HEADS))
    rows = "".join(
        "<tr>"
        + "".join(f"<td{_class(i)}>{escape(c)}</td>" for i, c in enumerate(_cells(row)))
        + "</tr>"
        for row in outcome.rows
    )
    drawn = chart(outcome)
    picture = f'<div class="chart">{drawn.svg()}</div>'
    words = "A line a policy; beside each other where they would lie on one another."
    table = f'<div class="chart"><table><tr>{head}</tr>{rows}</table></div>'
    body = section(escape(drawn.title), words, picture) + section(
        "All caches", "Slots a layer, and how many times the experts of a token that is.", table
    )
    return document(f"{outcome.model} - coli replay", outcome.model, lines(outcome)[0], body)


def _class(column: int) -> str:
    return ' class="number"' if column > 1 else ""


def _cells(row: Row) -> tuple[str, ...]:
    few, many = min(row.slots.values()), max(row.slots.values())
    policy = row.policy if row.policy == row.resolved else f"{row.policy} ({row.resolved})"
    decoded = row.decode_hits + row.decode_misses
    return (
        policy + (f" +{count(row.pinned, 'pin')}" if row.pinned else ""),
        row.scope,
        f"{few}" if few == many else f"{few}-{many}",
        f"{row.ratio:.2f}",
        units.percent(row.hit_rate),
        units.percent(row.decode_hit_rate if decoded else None),
        f"{row.misses}",
        units.size(row.bytes_read),
        units.size(row.guesses_wasted_bytes or None),
    )


def _name(row: Row) -> str:
    return row.policy if row.scope == "layer" else f"{row.policy} global"


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first = cells[0].ljust(widths[0])
    return "  ".join([first, *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))])
