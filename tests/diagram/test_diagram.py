"""The picture of the packages: drawn from the imports, up to date, complete and legible on its own."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from tests.architecture.graph import ALLOWED, PRODUCT
from tests.diagram.__main__ import DRAWING
from tests.diagram.drawing import svg
from tests.diagram.structure import Package, packages, reduced, rows

FOUND = packages()
_BOX = "{http://www.w3.org/2000/svg}rect"


def _made(**uses: str) -> dict[str, Package]:
    return {name: Package(name, f"What {name} is.", (), (), frozenset(used.split())) for name, used in uses.items()}


def test_the_drawing_is_that_of_the_code() -> None:
    assert DRAWING.read_text(encoding="utf-8") == svg(FOUND)


def test_imports_are_those_that_the_rules_allow() -> None:
    assert FOUND.keys() == set(PRODUCT)
    assert all(package.uses <= ALLOWED[name] for name, package in FOUND.items())
    assert FOUND["service"].uses == {"mappings", "cluster"}
    assert "keys.store" in FOUND["service"].face
    assert set(FOUND["service"].parts) >= {"keys", "limits", "openapi", "parameters", "resources"}


def test_what_follows_from_other_lines_is_left_out() -> None:
    found = _made(top="left right low", left="low", right="low", low="")
    assert reduced(found) == {"top": {"left", "right"}, "left": {"low"}, "right": {"low"}, "low": set()}


def test_a_package_is_drawn_above_those_it_uses() -> None:
    found = _made(top="left right low", left="low", right="low", low="", aside="")
    placed = {name: place for place, row in enumerate(rows(found)) for name in row}
    assert placed == {"top": 0, "aside": 0, "left": 1, "right": 1, "low": 2}
    ordered = rows(FOUND)
    assert sorted(name for row in ordered for name in row) == PRODUCT
    assert all(ordered.index(_row(name)) < ordered.index(_row(used)) for name in FOUND for used in FOUND[name].uses)


def _row(name: str) -> list[str]:
    return next(row for row in rows(FOUND) if name in row)


def test_no_box_covers_another_or_leaves_the_picture() -> None:
    root = ET.fromstring(svg(FOUND))  # noqa: S314 - our own
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    boxes = [tuple(float(box.attrib[side]) for side in ("x", "y", "width", "height")) for box in root.iter(_BOX)]
    assert len(boxes) == len(PRODUCT)
    for number, (x, y, w, h) in enumerate(boxes):
        assert x >= 0 <= y
        assert x + w <= width
        assert y + h <= height
        for left, top, other_w, other_h in boxes[:number]:
            assert x >= left + other_w or left >= x + w or y >= top + other_h or top >= y + h


def test_it_is_drawn_for_light_and_dark_pages_without_anything_from_elsewhere() -> None:
    text = DRAWING.read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]
    colours = {kind: len(re.findall(rf"\.{kind} {{", text)) for kind in ("box", "line", "tip", "quiet")}
    assert set(colours.values()) == {2}


@pytest.mark.parametrize("name", PRODUCT)
def test_every_package_has_a_purpose(name: str) -> None:
    assert FOUND[name].purpose
    assert f">{name}</text>" in DRAWING.read_text(encoding="utf-8")
