"""A replay's outcome as lines, as a chart and as a page that needs nothing else."""

from __future__ import annotations

from html import escape

from colibri.lab import units
from colibri.lab.lines import LineChart
from colibri.lab.replay.outcome import Outcome, Row

_HEADS = ("policy", "scope", "slots", "ratio", "hits", "in decode", "misses", "read", "wasted")


def lines(outcome: Outcome) -> list[str]:
    """Hit rates of all calls and of decode alone, bytes read, bytes read ahead in vain."""
    cells = [_HEADS, *map(_cells, outcome.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADS))]
    head = (
        f"{outcome.model}: {outcome.tokens} decoded tokens, {outcome.calls} calls of layers, "
        f"{outcome.experts_per_token} experts a token"
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
    head = "".join(f"<th>{escape(h)}</th>" for h in _HEADS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(c)}</td>" for c in _cells(row)) + "</tr>"
        for row in outcome.rows
    )
    style = (
        ":root{color-scheme:light dark}body{font:15px/1.5 sans-serif;margin:2rem auto;"
        "max-width:960px;padding:0 1rem}table{border-collapse:collapse;width:100%}"
        "th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #8884}"
        "th:first-child,td:first-child{text-align:left}"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(outcome.model)} - coli replay</title><style>{style}</style></head><body>"
        f"<h1>{escape(outcome.model)}</h1><p>{escape(lines(outcome)[0])}</p>"
        f"{chart(outcome).svg()}<table><tr>{head}</tr>{rows}</table></body></html>\n"
    )


def _cells(row: Row) -> tuple[str, ...]:
    few, many = min(row.slots.values()), max(row.slots.values())
    policy = row.policy if row.policy == row.resolved else f"{row.policy} ({row.resolved})"
    decoded = row.decode_hits + row.decode_misses
    return (
        policy + (f" +{row.pinned} pins" if row.pinned else ""),
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
