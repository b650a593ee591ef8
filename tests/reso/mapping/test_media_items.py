"""What becomes of the media of a record: images, tours, portraits and logos, and what stays unseen."""

from typing import Any

import pytest

from indexer.reso.mapping.fields import IdentifierFactory, MappingContext
from indexer.reso.mapping.parts import ListingImageMapper, MediaSelector
from mappings import AGENT, LISTING, OFFICE, SOLD_LISTING, TEAM, Resource
from mappings.fields import integer, objects, string
from tests.reso.mapping.record_source import DICTIONARY, InMemoryRecords, map_record

OFFICE_PICTURES = {"logo_url": "0", "image_url": "1"}
Medium = dict[str, Any]


def listing(*media: Medium, resource: Resource = LISTING, **fields: Any) -> Any:
    """Return what is composed of a Property with media; each has an address unless it says otherwise."""
    status = "Closed" if resource is SOLD_LISTING else "Active"
    return map_record(
        resource, _with(InMemoryRecords().put("Property", "k", StandardStatus=status, **fields), "Property", *media)
    )


def _with(held: InMemoryRecords, of: str, *media: Medium) -> InMemoryRecords:
    for number, medium in enumerate(media):
        held.put_part("Media", of, "k", **{"MediaURL": f"https://m/{number}"} | medium)
    return held


def image_urls(*media: Medium) -> list[str]:
    """Return the addresses of the images of a listing with these media, in order."""
    return [image["FullURL"].removeprefix("https://m/") for image in listing(*media).record["ListingImages"]]


@pytest.mark.parametrize("resource", [LISTING, SOLD_LISTING])
def test_an_image_has_all_its_members(resource: Resource) -> None:
    photo = {"ShortDescription": "Porch", "LongDescription": "A porch.", "MediaType": "jpeg", "ImageWidth": 800}
    made = listing(photo | {"ImageHeight": "600"}, resource=resource)
    sizes = dict.fromkeys(("FullURL", "GalleryURL", "RawURL", "SmallURL", "ThumbURL"), "https://m/0")
    texts = {"Title": "Porch", "Caption": "Porch", "Description": "A porch."}
    rest = {"MimeType": "image/jpeg", "IsMainListingImage": True, "Width": 800, "Height": 600}
    assert made.record["ListingImages"] == [sizes | texts | rest]
    [declared] = [field for field in resource.stored if field.name == "ListingImages"]
    assert {member.name for member in declared.members} == {*sizes, *texts, *rest}
    assert made.omitted == ()


def test_an_image_has_no_member_that_is_not_declared() -> None:
    held = InMemoryRecords().put("Property", "k").put_part("Media", "Property", "k", MediaURL="https://m", ImageWidth=3)
    reading = MappingContext(held, "Property", "k", held.records["Property", "k"])
    declared = objects("ListingImages", "", string("FullURL"), integer("Width"), object_name="ListingImage")
    media = MediaSelector(DICTIONARY.entities["Media"], IdentifierFactory()).select(reading)
    assert ListingImageMapper(declared)(reading, media) == [{"FullURL": "https://m", "Width": 3}]


@pytest.mark.parametrize(
    "unseen",
    [
        *({"MediaCategory": "Document"}, {"MediaCategory": "Video"}, {"MediaCategory": {}}, {"MediaStatus": "Deleted"}),
        *({"Permission": "Private"}, {"Permission": ["Public", "Office Only"]}, {"Permission": "FIRM-ONLY"}),
        *({"Permission": ["Agent Only"]}, {"Permission": {"a": 1}}, {"MediaURL": None}, {"MediaURL": "***"}),
        *({"MediaURL": {}}, {"MediaURL": ["https://m/0"]}, {"MediaStatus": [{}]}),
    ],
)
def test_non_public_media_is_not_shown(unseen: Medium) -> None:
    assert image_urls({}, unseen, {}) == ["0", "2"]


@pytest.mark.parametrize(
    "seen",
    [{"MediaCategory": "photo"}, {"MediaCategory": None}, {"Permission": ["Public", "IDX"]}, {"MediaStatus": "Active"}],
)
def test_public_photos_are_shown(seen: Medium) -> None:
    assert image_urls(seen) == ["0"]


def test_images_are_ordered_and_those_without_a_place_come_last() -> None:
    orders: list[object] = [2, None, "1", {}, -1, 2, 0.5]
    media = [{"MediaKey": key, "Order": order} for key, order in zip("dcbafeg", orders, strict=True)]
    assert image_urls(*media) == ["4", "6", "2", "0", "5", "3", "1"]


def test_one_image_is_the_main_one() -> None:
    def main(*preferred: object) -> list[bool]:
        made = listing(*[{"PreferredPhotoYN": value} for value in preferred])
        return [image["IsMainListingImage"] for image in made.record["ListingImages"]]

    assert main(None, None) == [True, False]
    assert main(False, True, True) == [False, True, False]
    assert main("N", "Y") == [False, True]
    assert main({}, False) == [True, False]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        *(("jpeg", "image/jpeg"), ("JPG", "image/jpeg"), ("png", "image/png"), ("svg", "image/svg+xml")),
        *(("image/webp", "image/webp"), ("tif", "image/tiff"), (None, None)),
    ],
)
def test_types_of_images(given: object, kind: str | None) -> None:
    assert listing({"MediaType": given}).record["ListingImages"][0].get("MimeType") == kind


def test_members_of_an_image_that_cannot_be_kept_are_reported() -> None:
    made = listing({"MediaType": "mp4", "ImageWidth": -5, "ImageHeight": 1e12, "ShortDescription": {}})
    assert made.record["ListingImages"][0].keys() >= {"FullURL", "IsMainListingImage"}
    assert sorted(made.omitted) == [
        ("Media.ImageHeight", "is 1000000000000.0: more than 2147483647"),
        ("Media.ImageWidth", "is -5: less than 0"),
        ("Media.MediaType", "is 'mp4': not an image type"),
        ("Media.ShortDescription", "is an object: not a text"),
    ]


def test_images_were_changed_when_the_newest_of_them_was() -> None:
    media = [{"ModificationTimestamp": f"2026-0{month}-01T00:00:00Z"} for month in (3, 5, 4)]
    unseen = {"ModificationTimestamp": "2026-09-01T00:00:00Z", "Permission": "Private"}
    assert listing(*media, unseen).record["ImagesLastModified"] == "2026-05-01"
    assert listing(*media, PhotosChangeTimestamp="2026-01-01T00:00:00Z").record["ImagesLastModified"] == "2026-01-01"
    assert "ImagesLastModified" not in listing({"ModificationTimestamp": None}).record


def test_a_virtual_tour_of_the_media_is_rather_one_without_advertising() -> None:
    branded, plain = {"MediaCategory": "Branded Virtual Tour"}, {"MediaCategory": "UnbrandedVirtualTour"}
    assert listing(branded, plain, plain).record["VirtualTourURL"] == "https://m/1"
    assert listing({}, branded).record["VirtualTourURL"] == "https://m/1"
    assert listing(plain, VirtualTourURLBranded="https://own").record["VirtualTourURL"] == "https://own"
    assert "VirtualTourURL" not in listing({}, plain | {"Permission": "Private"}).record


@pytest.mark.parametrize(
    ("resource", "entity", "media", "addresses"),
    [
        (AGENT, "Member", [{"Order": 2}, {"Order": 1}], {"profile_image_url": "1", "profile_thumb_url": "1"}),
        (AGENT, "Member", [{}, {"MediaCategory": "Agent Photo"}], {"profile_image_url": "1", "profile_thumb_url": "1"}),
        (AGENT, "Member", [{"Permission": "Private"}, {"MediaCategory": "Video"}], {}),
        (OFFICE, "Office", [{"MediaCategory": "Office Logo"}, {"MediaCategory": "OfficePhoto"}], OFFICE_PICTURES),
        (OFFICE, "Office", [{"MediaCategory": "Office Logo", "MediaStatus": "Deleted"}], {}),
        (TEAM, "Teams", [{"MediaCategory": "Photo"}, {"MediaCategory": "Logo"}], {"photo_url": "0", "logo_url": "1"}),
    ],
)
def test_people_and_places_have_pictures(
    resource: Resource, entity: str, media: list[Medium], addresses: dict[str, str]
) -> None:
    record = map_record(resource, _with(InMemoryRecords().put(entity, "k"), entity, *media)).record
    found = {name: value for name, value in record.items() if name.endswith("_url")}
    assert found == {name: f"https://m/{number}" for name, number in addresses.items()}
