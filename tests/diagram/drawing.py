"""The packages as an SVG: boxes in rows, lines from who uses to what is used. The same code gives the same bytes."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from tests.diagram.structure import reduced, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.diagram.structure import Package

# In pixels.
_WIDTH, _GAP, _ROW_GAP, _MARGIN, _PADDING, _LINE = 264, 28, 52, 20, 14, 17
_LETTERS = 33  # of the fixed-width letters below, in a box

_STYLE = """
  .box { fill: #f6f8fa; stroke: #59636e; }
  .line { fill: none; stroke: #59636e; stroke-width: 1.5; }
  .tip { fill: #59636e; }
  text { font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #1f2328; }
  .name { font-size: 15px; font-weight: bold; }
  .quiet { fill: #59636e; }
  @media (prefers-color-scheme: dark) {
    .box { fill: #161b22; stroke: #9198a1; }
    .line { stroke: #9198a1; }
    .tip { fill: #9198a1; }
    text { fill: #f0f6fc; }
    .quiet { fill: #9198a1; }
  }
"""


@dataclass(frozen=True)
class Box:
    """Where a package stands, and its lines of text with their classes."""

    lines: tuple[tuple[str, str], ...]
    left: float
    top: float
    height: int

    @property
    def middle(self) -> float:
        """Where lines begin and end."""
        return self.left + _WIDTH / 2


def _lines(package: Package) -> Iterator[tuple[str, str]]:
    yield "name", package.name
    yield from (("quiet", line) for line in textwrap.wrap(package.purpose, _LETTERS))
    if package.parts:
        yield from (("", line) for line in textwrap.wrap(f"Parts: {', '.join(package.parts)}", _LETTERS))
    if package.face:
        label = f"Others import: {', '.join(package.face)}"
        yield from (("", line) for line in textwrap.wrap(label, _LETTERS, break_on_hyphens=False))


def _boxes(found: dict[str, Package]) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    top, widest = float(_MARGIN), max(len(row) for row in rows(found))
    for row in rows(found):
        texts = {name: tuple(_lines(found[name])) for name in row}
        height = max(len(lines) for lines in texts.values()) * _LINE + 2 * _PADDING
        left = _MARGIN + (widest - len(row)) * (_WIDTH + _GAP) / 2
        for place, (name, lines) in enumerate(texts.items()):
            boxes[name] = Box(lines, left + place * (_WIDTH + _GAP), top, height)
        top += height + _ROW_GAP
    return boxes


def _drawn(box: Box) -> Iterator[str]:
    yield f'<rect class="box" x="{box.left:g}" y="{box.top:g}" width="{_WIDTH}" height="{box.height}" rx="6"/>'
    for number, (kind, line) in enumerate(box.lines):
        y = box.top + _PADDING + (number + 0.75) * _LINE
        yield f'<text class="{kind}" x="{box.left + _PADDING:g}" y="{y:g}">{escape(line)}</text>'


def _joined(user: Box, used: Box, share: float) -> str:
    """Return a line that leaves downward, and arrives from above at a share of the width."""
    x, y = user.middle, user.top + user.height
    end = used.left + share * _WIDTH
    turn = used.top - _ROW_GAP / 2
    return f'<path class="line" marker-end="url(#tip)" d="M{x:g} {y:g} V{turn:g} H{end:g} V{used.top - 2:g}"/>'


def _lines_between(found: dict[str, Package], boxes: dict[str, Box]) -> Iterator[str]:
    users: dict[str, list[str]] = {name: [] for name in boxes}
    for name, all_used in reduced(found).items():
        for used in all_used:
            users[used].append(name)
    for used, names in users.items():
        ordered = sorted(names, key=lambda name: boxes[name].left)
        for place, name in enumerate(ordered, start=1):
            yield _joined(boxes[name], boxes[used], place / (len(ordered) + 1))


def svg(found: dict[str, Package]) -> str:
    """Return the drawing as text."""
    boxes = _boxes(found)
    width = max(box.left for box in boxes.values()) + _WIDTH + _MARGIN
    height = max(box.top + box.height for box in boxes.values()) + _MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">'
    tip = '<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    defined = f'<defs>{tip}<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    title = "<title>The packages of the product, and who imports whom</title>"
    drawn = [line for box in boxes.values() for line in _drawn(box)]
    return "\n".join(
        [head, title, f"<style>{_STYLE}</style>", defined, *_lines_between(found, boxes), *drawn, "</svg>", ""]
    )
