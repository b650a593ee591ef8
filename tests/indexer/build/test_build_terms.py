"""Commands that share a build must agree on the source and the options; what differs is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from indexer import FolderSource, IndexerSettings, SourceError
from indexer.build.hosts.build_terms import BuildTerms, build_terms, require_same
from indexer.documents.coverage import BY_SOURCE, EVERY_COMPANY
from mappings import COMPANY, TEAM
from tests.records import envelope, write

if TYPE_CHECKING:
    from pathlib import Path


def terms(folder: Path, name: str, **changes: Any) -> BuildTerms:
    """Return the terms of a small source."""
    write(folder, {COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM, {"name": name})]})
    given = {"resources": [COMPANY, TEAM], "covered": BY_SOURCE, **changes}
    return build_terms(FolderSource(folder), given["resources"], given["covered"], IndexerSettings())


def test_the_same_source_in_another_folder_can_be_shared(tmp_path: Path) -> None:
    require_same(terms(tmp_path / "a", "one"), terms(tmp_path / "b", "one"), "x")


@pytest.mark.parametrize(
    ("name", "changes", "difference"),
    [
        ("three", {}, r"teams.ndjson has \d+ bytes here and \d+ there"),
        ("two", {}, "teams.ndjson has another content here than there"),
        ("one", {"resources": [TEAM]}, "it builds companies, teams here and teams there"),
        ("one", {"covered": EVERY_COMPANY}, "it covers the companies of the source here and all companies there"),
    ],
)
def test_what_differs_is_named(tmp_path: Path, name: str, changes: dict[str, Any], difference: str) -> None:
    with pytest.raises(SourceError, match=f"cannot share the build of x: {difference}. Use the same source"):
        require_same(terms(tmp_path / "a", "one"), terms(tmp_path / "b", name, **changes), "x")


def test_a_compressed_file_there_is_not_the_file_here(tmp_path: Path) -> None:
    other = terms(tmp_path / "b", "one", resources=[COMPANY])
    other = BuildTerms(other.program, ["companies", "teams"], BY_SOURCE, other.files, other.schemas, other.limits)
    with pytest.raises(SourceError, match="only here teams are an uncompressed file"):
        require_same(terms(tmp_path / "a", "one"), other, "x")
