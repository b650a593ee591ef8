"""Times without an offset: what their zone makes of them, and what is said of those that it leaves open."""

from pathlib import Path

import orjson
import pytest

from indexer import RejectedLine, SourceError, open_source
from indexer.inspection import check_source
from tests.indexer.source.tables.table_folder import IDENTIFIER, cell, lines_of, write_map

TWICE, NEVER = "2026-11-01T01:10", "2026-03-08T02:30"
NEW_YORK = 'time_zone = "America/New_York"\n'
X = '{column = "x"}'
FIELD = "ModificationTimestamp"


def instant(folder: Path, text: str, keys: str, cell_keys: str = "") -> str:
    """Return the `updated_at` of a row whose time is a text, or why it is rejected."""
    (folder / "table.csv").write_text(f"id,at\n1,{text}\n")
    declared = f'updated_at = {{column = "at"{cell_keys}}}\n'
    head = f'resource = "listings"\nplatform_company_id = "acme"\nfile = "table.csv"\n{keys}'
    [line] = lines_of(write_map(folder, head + declared + IDENTIFIER))
    return line.error.reason if isinstance(line, RejectedLine) else str(orjson.loads(line.data)["updated_at"])


AMBIGUOUS = (
    "column at: '2026-11-01T01:10' is in the hour that comes twice in America/New_York: add the offset, or set "
    '`ambiguous` to "earlier" or "later"'
)
ABSENT = "column at: '2026-03-08T02:30' does not exist in America/New_York, where the clocks went forward"


@pytest.mark.parametrize(
    ("text", "keys", "own", "expected"),
    [
        pytest.param(TWICE, "", "", "2026-11-01T05:10:00+00:00", id="by default the earlier"),
        pytest.param(TWICE, 'ambiguous = "earlier"\n', "", "2026-11-01T01:10:00-04:00", id="earlier"),
        pytest.param(TWICE, 'ambiguous = "later"\n', "", "2026-11-01T01:10:00-05:00", id="later"),
        pytest.param(TWICE, 'ambiguous = "refuse"\n', "", AMBIGUOUS, id="refused"),
        pytest.param(TWICE, 'ambiguous = "refuse"\n', ', ambiguous = "later"', "2026-11-01T01:10:00-05:00", id="cell"),
        pytest.param(f"{TWICE}-05:00", 'ambiguous = "refuse"\n', "", "2026-11-01T01:10:00-05:00", id="with an offset"),
        pytest.param("2026-11-01T00:59", 'ambiguous = "refuse"\n', "", "2026-11-01T00:59:00-04:00", id="before"),
        pytest.param("2026-11-01T02:00", 'ambiguous = "refuse"\n', "", "2026-11-01T02:00:00-05:00", id="after"),
        pytest.param(NEVER, "", "", "2026-03-08T06:59:59+00:00", id="just before the clocks went forward"),
        pytest.param(NEVER, 'ambiguous = "refuse"\n', "", ABSENT, id="a time that does not exist is refused"),
    ],
)
def test_the_instant_of_an_update(tmp_path: Path, text: str, keys: str, own: str, expected: str) -> None:
    assert instant(tmp_path, text, NEW_YORK + keys, own) == expected


@pytest.mark.parametrize(
    ("text", "declared", "field", "expected"),
    [
        (TWICE, X, FIELD, "2026-11-01T01:10:00-04:00"),
        (TWICE, '{column = "x", ambiguous = "later"}', FIELD, "2026-11-01T01:10:00-05:00"),
        (NEVER, X, FIELD, "2026-03-08T02:30:00-05:00"),
    ],
)
def test_the_instant_of_another_time(tmp_path: Path, text: str, declared: str, field: str, expected: str) -> None:
    assert cell(tmp_path, declared, text, field, NEW_YORK) == expected


def test_other_words_are_no_answer(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="ambiguous"):
        instant(tmp_path, TWICE, 'ambiguous = "both"\n')


def notes(folder: Path, keys: str, *texts: str, column: str = "at") -> list[str]:
    rows = "".join(f"{number},{text}\n" for number, text in enumerate(texts))
    (folder / "table.csv").write_text(f"id,{column}\n{rows}")
    head = f'resource = "listings"\nplatform_company_id = "acme"\nfile = "table.csv"\n{keys}'
    declared = f'updated_at = {{column = "{column}"}}\n{IDENTIFIER}Status = "Active"\n'
    with open_source(write_map(folder, head + declared)) as source:
        check_source(source)  # twice: the counts are those of one pass
        return [note for note in check_source(source).notes if "column at" in note or "time" in note]


def test_what_a_zone_leaves_open_is_said_once_with_its_count(tmp_path: Path) -> None:
    assert notes(tmp_path, NEW_YORK, TWICE, TWICE, NEVER, "2026-11-01T04:00", "2026-11-01T01:10Z") == [
        f"map.toml: 2 times of column at are in an hour that comes twice in America/New_York, such as '{TWICE}': "
        "lines of `updated_at` count in the order in which they arrive, and other times are the earlier ones; "
        "`ambiguous` says otherwise",
        f"map.toml: 1 time of column at does not exist in America/New_York, such as '{NEVER}', read as "
        "2026-03-08T06:59:59+00:00: correct `time_zone` if the clock of the source does not go forward",
    ]
    assert notes(tmp_path, f'{NEW_YORK}ambiguous = "later"\n', TWICE) == [
        f"map.toml: 1 time of column at is in an hour that comes twice in America/New_York, such as '{TWICE}', "
        'read as 2026-11-01T01:10:00-05:00 by ambiguous = "later"'
    ]


def test_a_zone_that_is_not_known_is_said_once_with_its_count(tmp_path: Path) -> None:
    assert notes(tmp_path, "", TWICE, NEVER, "2026-11-01T01:10Z") == [
        f"map.toml: 2 times of column at have no offset, such as '{TWICE}', and the map has no `time_zone`: UTC "
        "is taken"
    ]
    assert notes(tmp_path, 'time_zone = "UTC"\n', TWICE) == []
