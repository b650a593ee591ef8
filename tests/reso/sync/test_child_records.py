"""Children that come with their parent: none is lost, none stays, and nothing private is kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.reso.client.edmx import EntityMetadata
from indexer.reso.entity_forms import SourceForms
from indexer.reso.mirror import Mirror
from indexer.reso.source_map import read_map
from indexer.reso.sync.entity_reader import ChildRecords

SOURCE = read_map(None, "bridge")
PROPERTY = EntityMetadata(
    dict.fromkeys(("ListingKey", "ModificationTimestamp"), "Edm.String"), embedded={"Media": frozenset()}
)


@pytest.fixture
def photos(tmp_path: Path) -> Iterator[ChildRecords]:
    mirror = Mirror(tmp_path / "mirror.sqlite", SOURCE.dictionary)
    (form,) = SourceForms(SOURCE.dialect, SOURCE.dictionary, {"Property": PROPERTY}).form("Property").children
    yield ChildRecords("Property", form, mirror)
    mirror.close()


def held(photos: ChildRecords, key: str = "P") -> list[str]:
    """Return the URLs of the photos that the mirror has of a listing."""
    return [part["MediaURL"] for part in photos.mirror.parts("Media", "Property", key)]


def store(photos: ChildRecords, *items: Any, key: str = "P", **row: Any) -> list[str]:
    """Store a listing that comes with photos; return what the mirror has."""
    photos.store(key, {"Media": list(items)} | row)
    return held(photos, key)


def photo(key: object, url: str, **fields: object) -> dict[str, object]:
    return {"MediaKey": key, "MediaURL": url, **fields}


def test_what_a_list_lacks_is_removed_and_what_belongs_to_others_stays(photos: ChildRecords) -> None:
    assert store(photos, photo("a", "1"), photo("b", "2")) == ["1", "2"]
    assert store(photos, photo("c", "3"), key="Q") == ["3"]
    assert store(photos, photo("b", "2")) == ["2"]
    assert store(photos) == []
    assert held(photos, "Q") == ["3"]
    photos.remove_all("Q")
    assert held(photos, "Q") == []


def test_photos_without_a_key_or_with_one_key_are_all_kept(photos: ChildRecords) -> None:
    assert sorted(
        store(photos, photo(None, "1"), photo(None, "2"), photo("a", "3"), photo("a", "4"), photo(7, "5"))
    ) == [*("1", "2", "3", "4", "5")]
    assert store(photos, "no record", photo("a", "3")) == ["3"]
    assert photos.without_key == 1


def test_photos_belong_to_the_listing_that_they_come_with(photos: ChildRecords) -> None:
    """Whatever key they name themselves."""
    assert store(photos, photo("a", "1", ResourceRecordKey="another", ResourceName="Office")) == ["1"]


def test_only_mapped_fields_are_kept(photos: ChildRecords) -> None:
    store(photos, photo("a", "1", PrivateRemarks="secret", UploadedByPassword="secret"))
    assert "secret" not in str(photos.mirror.record("Media", "a"))


@pytest.mark.parametrize(("row", "left"), [({}, ["1"]), ({"Media": None}, ["1"]), ({"PhotosCount": 0}, [])])
def test_a_missing_member_removes_nothing_unless_the_listing_says_that_it_has_none(
    photos: ChildRecords, row: dict[str, Any], left: list[str]
) -> None:
    store(photos, photo("a", "1"))
    photos.store("P", row)
    assert held(photos) == left


def test_fewer_photos_than_the_listing_says_are_counted(photos: ChildRecords) -> None:
    store(photos, photo("a", "1"), PhotosCount=3)
    assert (photos.fewer, photos.example) == (1, "'P' has 1 of 3")
