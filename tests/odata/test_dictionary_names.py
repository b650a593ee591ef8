"""Every name in `$metadata` is one of the present Data Dictionary, or is ours for a reason."""

from xml.etree import ElementTree as ET

from service.reso.metadata import metadata_document
from service.reso.sets.declarations import DATA_DICTIONARY
from tests.odata.dictionary_names import published_names

_SIZES = "a further size of the photo: the Data Dictionary has one URL for a medium"
_PHOTO = "people, offices and teams have photos as fields here, not as Media"
_LISTING = "a field of listings that the Data Dictionary does not have"
_EXPLAINED = {
    "Media.Caption": "the caption of a photo beside its title, which is ShortDescription",
    **dict.fromkeys((f"Media.{size}URL" for size in ("Gallery", "Raw", "Small", "Thumb")), _SIZES),
    **dict.fromkeys(("Member.MemberPhotoURL", "Member.MemberPhotoThumbURL"), _PHOTO),
    **dict.fromkeys(("Office.OfficePhotoURL", "Office.OfficeLogoURL"), _PHOTO),
    **dict.fromkeys(("Teams.TeamPhotoURL", "Teams.TeamLogoURL"), _PHOTO),
    "Member.MemberOtherPhone": "one number as text: MemberOtherPhones, as it is called now, are records of a resource",
    "Property.AgentCreatedListing": _LISTING,
    "Property.BathroomsTotalDecimal": "baths with their halves, of which BathroomsTotalInteger is the whole number",
    "Property.ListOfficeAORArea": _LISTING,
    "Property.PublicTitle": _LISTING,
    "Property.SingleStory": _LISTING,
    "Field.DisplayName": "what people call a field; RESO's tools read it",
}


def _served_names() -> set[str]:
    root = ET.fromstring(metadata_document())  # noqa: S314 - our own
    types = [element for element in root.iter() if element.tag.endswith("}EntityType")]
    named = ((kind, child) for kind in types for child in kind if child.tag.endswith("Property"))
    return {f"{kind.get('Name')}.{child.get('Name')}" for kind, child in named}


def test_each_name_is_published_or_explained() -> None:
    published = {f"{entity}.{name}" for entity, names in published_names().items() for name in names}
    assert len(published & _served_names()) > 150
    assert _served_names() - published == _EXPLAINED.keys()


def test_renamed_names_are_not_published_any_more_and_those_instead_are() -> None:
    published = published_names()
    for entity, renamed in DATA_DICTIONARY.renamed.items():
        if entity in published:
            assert published[entity].isdisjoint(renamed), entity
            assert published[entity].issuperset(renamed.values()), entity
