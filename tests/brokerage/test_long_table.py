"""Tables that are printed line by line: columns that align, fold and hold no control characters."""

import pytest
from rich.cells import cell_len

from brokerage.tables import Column, table_lines

COLUMNS = (Column("Id"), Column("Name", may_fold=True), Column("State"))
ROWS = [("a1", "Smith & Sons", "active"), ("b2", "東京" * 10, "revoked")]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    heading, *lines = table_lines(COLUMNS, ROWS, None)
    assert heading == f"Id  {'Name':40}  State"
    assert lines[0] == f"a1  {'Smith & Sons':40}  active"
    assert {cell_len(line.rpartition("  ")[0]) for line in lines} == {44}


@pytest.mark.parametrize("width", [30, 40, 50])
def test_only_columns_that_may_are_folded_to_the_width(width: int) -> None:
    lines = "\n".join(table_lines(COLUMNS, ROWS, width)).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "".join(lines).count("東") == "".join(lines).count("京") == 10
    assert [line.split()[-1] for line in lines if line.startswith(("a1", "b2"))] == ["active", "revoked"]


def test_a_terminal_that_is_too_narrow_loses_nothing() -> None:
    assert "revoked" in "\n".join(table_lines(COLUMNS, ROWS, 1))


def test_control_characters_are_replaced() -> None:
    assert [*table_lines(COLUMNS, [("a1", "\x1b[2J", "active")], None)][1] == "a1  \ufffd[2J  active"


def test_states_are_styled_on_request() -> None:
    *_, first, second = table_lines(COLUMNS, ROWS, None, ["green", "dim"])
    assert first.endswith("\x1b[32mactive\x1b[0m")
    assert second.endswith("\x1b[2mrevoked\x1b[0m")
