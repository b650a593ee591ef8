"""The chart has a bar for each who was measured, as long as its rate, the fastest first."""

from xml.etree import ElementTree as ET

import pytest

from bench.questions import BY_IDENTIFIER, FASTAPI, POSTGRES, RAW, RELAY, SERVICE
from bench.report import chart
from tests.bench.made import EVERYONE, results

_SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_long_as_rates_and_only_the_fastest_textbook_is_shown() -> None:
    drawn = chart(results(EVERYONE))
    assert drawn is not None
    picture = ET.fromstring(drawn)  # noqa: S314 - our own text
    texts = [text.text for text in picture.iter(f"{_SVG}text")][1:]
    assert texts[::2] == [RELAY, RAW, SERVICE, POSTGRES, BY_IDENTIFIER, FASTAPI]
    assert texts[1::2] == ["889", "800", "667", "444", "333", "133"]
    widths = [float(bar.attrib["width"]) for bar in picture.iter(f"{_SVG}rect")]
    assert [width / widths[0] for width in widths] == pytest.approx([1.0, 0.9, 0.75, 0.5, 0.375, 0.15], rel=1e-3)
    [ours] = [bar for bar in picture.iter(f"{_SVG}rect") if bar.attrib["class"] == "ours"]
    assert float(ours.attrib["width"]) == widths[2]


def test_without_peers_there_is_no_chart() -> None:
    found = results(EVERYONE)
    del found.groups["peers"]
    assert chart(found) is None
