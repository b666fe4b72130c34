"""Pictures of reports and comparisons: SVG that stands in a page by itself, without script, network or package."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

Step = tuple[float, float, float]  # begin, computed, waited before it: seconds of the rank's own time

_COMPUTING = "#0072b2"  # of the palette of Okabe and Ito, which everybody can tell apart
_WAITING = "#e69f00"
_TEXT = 'font-family="sans-serif" font-size="12" fill="#222"'
_WIDTH = 720
_LEFT = 150
_MOST_STEPS = 24  # in a picture, of the rank that makes most


def time_lines(lanes: Sequence[tuple[str, Sequence[Step]]], title: str) -> str:
    """A line for each lane, over the last steps that all of them have in common: who computes, who waits. Empty where
    no lane has a step.
    """
    there = [steps for _, steps in lanes if steps]
    if not there:
        return ""
    end = max(_end(steps) for steps in there)
    begin = max(steps[0][0] - steps[0][2] for steps in there if _end(steps) > 0)
    begin = max([begin] + [steps[-_MOST_STEPS][0] for steps in there if len(steps) >= _MOST_STEPS])
    begin = min(begin, max(steps[-1][0] - steps[-1][2] for steps in there))
    scale = (_WIDTH - _LEFT - 20) / (end - begin) if end > begin else 0.0
    shapes = [_text(_LEFT, 16, title)]
    for number, (name, steps) in enumerate(lanes):
        top = 28 + 24 * number
        shapes.append(_text(_LEFT - 8, top + 13, name, anchor="end"))
        for step_begin, computed, waited in steps:
            shapes.append(_bar(step_begin - waited, step_begin, begin, scale, top, _WAITING, "waits", waited))
            shapes.append(_bar(step_begin, step_begin + computed, begin, scale, top, _COMPUTING, "computes", computed))
    bottom = 28 + 24 * len(lanes)
    shapes.append(_text(_LEFT, bottom + 14, "0"))
    shapes.append(_text(_WIDTH - 20, bottom + 14, duration(end - begin), anchor="end"))
    shapes += _legend(bottom + 14)
    return _picture(bottom + 24, shapes, title)


def bars(values: Sequence[tuple[str, float, str]], title: str) -> str:
    """A bar for each name, as long as its value, with a text behind it. Empty without values."""
    largest = max((value for _, value, _ in values), default=0.0)
    if largest <= 0:
        return ""
    shapes = [_text(_LEFT, 16, title)]
    for number, (name, value, label) in enumerate(values):
        top = 28 + 22 * number
        width = max(value / largest * (_WIDTH - _LEFT - 170), 0.0)
        shapes.append(_text(_LEFT - 8, top + 13, name, anchor="end"))
        shapes.append(f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="17" fill="{_COMPUTING}"/>')
        shapes.append(_text(_LEFT + width + 6, top + 13, label))
    return _picture(28 + 22 * len(values) + 6, shapes, title)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of HTML, whose first column is text and the others numbers."""

    def row(cells: Sequence[str], kind: str) -> str:
        aligned = (
            f'<{kind} style="text-align:{"right" if i else "left"};padding:1px 8px">{html.escape(cell)}</{kind}>'
            for i, cell in enumerate(cells)
        )
        return f"<tr>{''.join(aligned)}</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def paragraph(text: str) -> str:
    return f'<div style="white-space:pre-wrap;margin:2px 0">{html.escape(text)}</div>'


def duration(seconds: float) -> str:
    """ "1.23 s", "45.6 ms", "7.89 µs"."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{significant(seconds / factor)} {unit}"
    return f"{significant(seconds * 1e6)} µs" if seconds else "0 s"


def significant(value: float) -> str:
    """With three digits, and no power of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table of text: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in (head, *rows)
    ]


def _end(steps: Sequence[Step]) -> float:
    return steps[-1][0] + steps[-1][1]


def _bar(begin: float, end: float, zero: float, scale: float, top: int, colour: str, does: str, took: float) -> str:
    if end <= zero:
        return ""
    x = _LEFT + (max(begin, zero) - zero) * scale
    width = (end - max(begin, zero)) * scale
    return (
        f'<rect x="{x:.2f}" y="{top}" width="{width:.2f}" height="18" fill="{colour}">'
        f"<title>{does} {duration(took)}</title></rect>"
    )


def _legend(y: int) -> list[str]:
    shapes = []
    for x, colour, word in ((_LEFT + 150, _COMPUTING, "computes"), (_LEFT + 250, _WAITING, "waits")):
        shapes.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        shapes.append(_text(x + 17, y, word))
    return shapes


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" {_TEXT}>{html.escape(text)}</text>'


def _picture(height: int, shapes: Sequence[str], title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{html.escape(title)}" style="max-width:100%">'
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>{"".join(shapes)}</svg>'
    )
