"""The parts of a record: its public media, the images of a listing, and its open houses in local time."""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

from indexer.reso.mapping.fields import (
    IdentifierFactory,
    MappingContext,
    build_extractor,
    normalize_names,
    source_field,
)
from indexer.reso.mapping.values import (
    UnmappableValue,
    describe_value,
    find_time_zone,
    is_without_offset,
    to_boolean,
    to_date,
    to_datetime,
    to_number,
    to_text,
    to_time_of_day,
    to_url,
)
from mappings.data_dictionary import MODIFICATION_TIMESTAMP, DictionaryEntity
from mappings.fields import Field

MEDIA_ENTITY = "Media"
_DELETED = normalize_names(["Deleted"])


class MediaItem(NamedTuple):
    """A media record with its URL and its normalized category, empty if it has none."""

    record: dict[str, Any]
    url: str
    category: str


class MediaSelector:
    def __init__(self, entity: DictionaryEntity, identifiers: IdentifierFactory) -> None:
        self._key = entity.key
        private = entity.not_public
        self._private_flag = (
            None
            if private is None
            else (f"{MEDIA_ENTITY}.{source_field(private)}", build_extractor(private, identifiers))
        )

    def select(self, context: MappingContext) -> list[MediaItem]:
        """Return the media sorted by Order (those without it last), then by key."""
        public = [part for part in context.parts(MEDIA_ENTITY) if self._is_public(context, part)]
        if len(public) > 1:
            public.sort(key=self._sort_key)
        return [item for part in public if (item := _media_item(context, part)) is not None]

    def _sort_key(self, part: dict[str, Any]) -> tuple[float, str]:
        return _order_value(part.get("Order")), str(part.get(self._key) or "")

    def _is_public(self, context: MappingContext, part: dict[str, Any]) -> bool:
        """Whether an item is public; one whose flag is unmappable is not."""
        if self._private_flag is None:
            return True
        field, extract = self._private_flag
        try:
            return to_boolean(extract(context, part)) is not True
        except UnmappableValue as error:
            context.omitted.append((field, error.reason))
            return False


def first_of_category(media: Iterable[MediaItem], *categories: str) -> MediaItem | None:
    """Return the first item of the first category present; categories are given normalized."""
    media = list(media)
    return next((item for category in categories for item in media if item.category == category), None)


def _order_value(value: object) -> float:
    """Return the sort value of an Order, which may be negative; infinity without one."""
    if type(value) is int and -(2**53) < value < 2**53:
        return value
    try:
        number = to_number(value)
    except UnmappableValue:
        return inf
    return inf if number is None else number


def _media_item(context: MappingContext, part: dict[str, Any]) -> MediaItem | None:
    """Return the item; None without a URL, for a deleted one, and for an unmappable status or category."""
    if (url := context.convert("Media.MediaURL", to_url, part.get("MediaURL"))) is None:
        return None
    status = context.normalized_text("Media.MediaStatus", part.get("MediaStatus"))
    category = context.normalized_text("Media.MediaCategory", part.get("MediaCategory"))
    return None if status is None or status in _DELETED or category is None else MediaItem(part, url, category)


# Normalized by `normalize_lookup`; the empty one is for media without a category.
PHOTO_CATEGORIES = ("photo", "")
_TOUR_CATEGORIES = ("unbrandedvirtualtour", "virtualtour", "brandedvirtualtour")
_URL_FIELDS = ("FullURL", "GalleryURL", "RawURL", "SmallURL", "ThumbURL")
_MIME_TYPES = {
    **{name: f"image/{name}" for name in ("avif", "bmp", "gif", "heic", "jpeg", "png", "tiff", "webp")},
    "jpg": "image/jpeg",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
}


class ListingImageMapper:
    def __init__(self, declared: Field) -> None:
        self._members = frozenset(member.name for member in declared.members)

    def __call__(self, context: MappingContext, photos: Sequence[MediaItem]) -> list[dict[str, object]]:
        """Return the images in order; the main image is the first preferred one, else the first."""
        if not photos:
            return []
        main = next((photo for photo in photos if _is_preferred(context, photo)), photos[0])
        return [self._image(context, photo, is_main=photo is main) for photo in photos]

    def _image(self, context: MappingContext, photo: MediaItem, *, is_main: bool) -> dict[str, object]:
        title, caption = _converted_text(context, photo, "ShortDescription"), _converted_text(context, photo, "Caption")
        image: dict[str, object] = dict.fromkeys(_URL_FIELDS, photo.url)
        image["Title"] = image["Caption"] = title
        # A source with photos of several sizes, as /v1/reso, has their URLs, and captions besides titles.
        if sizes := {name: url for name in _URL_FIELDS[1:] if (url := _size_url(context, photo, name)) is not None}:
            image |= dict.fromkeys(_URL_FIELDS[1:]) | sizes | {"Caption": caption}
        image["Description"] = _converted_text(context, photo, "LongDescription")
        image["MimeType"] = context.convert("Media.MediaType", to_image_mime_type, photo.record.get("MediaType"))
        image["IsMainListingImage"] = is_main
        image["Width"] = context.convert("Media.ImageWidth", to_number, photo.record.get("ImageWidth"))
        image["Height"] = context.convert("Media.ImageHeight", to_number, photo.record.get("ImageHeight"))
        return {name: value for name, value in image.items() if value is not None and name in self._members}


def select_photos(media: Sequence[MediaItem]) -> list[MediaItem]:
    return [item for item in media if item.category in PHOTO_CATEGORIES]


def images_last_modified(context: MappingContext, photos: Sequence[MediaItem]) -> str | None:
    """Return the date of the newest change of a photo, None if no photo has a timestamp."""
    field = f"Media.{MODIFICATION_TIMESTAMP}"
    dates = (context.convert(field, to_date, photo.record.get(MODIFICATION_TIMESTAMP)) for photo in photos)
    return max((date for date in dates if date is not None), default=None)


def virtual_tour_url(media: Sequence[MediaItem]) -> str | None:
    tours = [item for item in media if item.category in _TOUR_CATEGORIES]
    return min(tours, key=lambda tour: _TOUR_CATEGORIES.index(tour.category)).url if tours else None


def to_image_mime_type(value: object) -> str | None:
    """Return the MIME type of an image; raise UnmappableValue for any other type."""
    if (kind := to_text(value)) is None or "/" in kind:
        return kind
    if (known := _MIME_TYPES.get(kind.casefold())) is None:
        raise UnmappableValue(f"is {describe_value(kind)}: not an image type")
    return known


def _is_preferred(context: MappingContext, photo: MediaItem) -> bool:
    value = photo.record.get("PreferredPhotoYN")
    return value is True or (value is not None and context.convert("Media.PreferredPhotoYN", to_boolean, value) is True)


def _size_url(context: MappingContext, photo: MediaItem, name: str) -> str | None:
    value = photo.record.get(name)
    url: str | None = None if value is None else context.convert(f"Media.{name}", to_url, value)
    return url


def _converted_text(context: MappingContext, photo: MediaItem, name: str) -> str | None:
    value = photo.record.get(name)
    converted: str | None = None if value is None else context.convert(f"Media.{name}", to_text, value)
    return converted


OPEN_HOUSE = "OpenHouse"
_DAY = dt.timedelta(days=1)
_CANCELED = normalize_names(["Canceled", "Cancelled"])
_LIVESTREAM_TYPES = normalize_names(["Livestream Public"])
# Other types are for agents or offices only.
_PUBLIC_TYPES = normalize_names(["Public", ""]) | _LIVESTREAM_TYPES


class OpenHouseMapper:
    def __init__(self, declared: Field, key: str, default_zone: dt.tzinfo | None) -> None:
        self._members = frozenset(member.name for member in declared.members)
        self._key = key
        self._default_zone = default_zone

    def __call__(self, context: MappingContext) -> list[dict[str, object]]:
        """Return the open houses sorted by date, start and key."""
        if not (parts := context.parts(OPEN_HOUSE)):
            return []
        zone = self._zone(context)
        keyed = [
            (house, str(part.get(self._key) or "")) for part in parts if (house := _map_open_house(context, part, zone))
        ]
        keyed.sort(key=lambda pair: (pair[0]["Date"], pair[0].get("StartTime", ""), pair[1]))
        return [{name: value for name, value in house.items() if name in self._members} for house, _ in keyed]

    def _zone(self, context: MappingContext) -> dt.tzinfo | None:
        name = context.convert("PropertyTimeZoneName", to_text, context.record.get("PropertyTimeZoneName"))
        zone = None if name is None else find_time_zone(name)
        if name is not None and zone is None and self._default_zone is None:
            context.omitted.append(("PropertyTimeZoneName", f"is {describe_value(name)}: not a time zone"))
        return zone or self._default_zone


class _LocalTime(NamedTuple):
    """A date and time of day; the date is empty if none is given. `is_zoned`: converted to the listing's time zone."""

    date: str
    time: str
    is_zoned: bool = False


def _map_open_house(context: MappingContext, part: dict[str, Any], zone: dt.tzinfo | None) -> dict[str, Any] | None:
    """Return an open house with all members; None if it is canceled, not public, or without a date."""
    if (kind := _public_type(context, part)) is None:
        return None
    start = _convert(context, part, "OpenHouseStartTime", lambda value: _local_time(value, zone))
    if not (date := _day(_convert(context, part, "OpenHouseDate", to_date), start)):
        context.omitted.append((f"{OPEN_HOUSE}.OpenHouseDate", "is missing: the open house is left out"))
        return None
    if zone is None and start is not None and start.date and not is_without_offset(given := part["OpenHouseStartTime"]):
        assumption = "without a time zone of the listing, shown as they are"
        context.assumed.append((f"{OPEN_HOUSE}.OpenHouseStartTime", assumption, describe_value(given)))
    end = _convert(context, part, "OpenHouseEndTime", lambda value: _local_time(value, zone))
    house = {"Date": date, "StartTime": start and start.time, "EndTime": end and end.time}
    house |= _livestream_fields(context, part, kind)
    house["Comment"] = _convert(context, part, "OpenHouseRemarks", to_text)
    return {name: value for name, value in house.items() if value is not None}


def _day(given: str | None, start: _LocalTime | None) -> str:
    """Return the day of the start at the listing: sources with times in UTC often give the day in UTC, too.

    A start that is further from the given day than a time zone can move it is only a time of day.
    """
    if start is None or not start.date or given is None:
        return given or (start.date if start else "")
    is_near = abs(dt.date.fromisoformat(given) - dt.date.fromisoformat(start.date)) <= _DAY
    return start.date if start.is_zoned and is_near else given


def _livestream_fields(context: MappingContext, part: dict[str, Any], kind: str) -> dict[str, Any]:
    url = _convert(context, part, "LivestreamOpenHouseURL", to_url)
    return {"VirtualOpenHouseYN": url is not None or kind in _LIVESTREAM_TYPES, "VirtualOpenHouseURL": url}


def _public_type(context: MappingContext, part: dict[str, Any]) -> str | None:
    """Return the type of an open house that is public and not canceled; None otherwise or if unmappable."""
    status = context.normalized_text(f"{OPEN_HOUSE}.OpenHouseStatus", part.get("OpenHouseStatus"))
    kind = context.normalized_text(f"{OPEN_HOUSE}.OpenHouseType", part.get("OpenHouseType"))
    return None if status is None or status in _CANCELED or kind not in _PUBLIC_TYPES else kind


def _convert(context: MappingContext, part: dict[str, Any], name: str, converter: Callable[[object], Any]) -> Any:
    value = part.get(name)
    return None if value is None else context.convert(f"{OPEN_HOUSE}.{name}", converter, value)


def _local_time(value: object, zone: dt.tzinfo | None) -> _LocalTime | None:
    if (time := to_time_of_day(value)) is not None:
        return _LocalTime("", time)
    if (timestamp := to_datetime(value)) is None:
        return None
    is_zoned = zone is not None and not is_without_offset(value)
    local = timestamp.astimezone(zone) if is_zoned else timestamp
    return _LocalTime(local.date().isoformat(), local.time().isoformat("seconds"), is_zoned)
