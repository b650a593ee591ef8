"""What `make newcomer` measured replaces what it wrote into a page before."""

from pathlib import Path

import pytest

from bench.newcomer import write_between_marks


def test_the_last_measurement_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Before\n<!-- newcomer:begin -->\n<!-- newcomer:end -->\nBehind\n")
    write_between_marks(page, "first\n")
    write_between_marks(page, "second\n")
    assert page.read_text() == "Before\n<!-- newcomer:begin -->\nsecond\n<!-- newcomer:end -->\nBehind\n"


def test_a_page_without_a_place_for_it_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Nothing\n")
    with pytest.raises(SystemExit, match=r"page.md lacks <!-- newcomer:begin --> and <!-- newcomer:end -->\."):
        write_between_marks(page, "a table\n")
