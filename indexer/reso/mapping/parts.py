"""The parts of a record: its public media, the images of a listing, and its open houses in local time."""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from indexer.reso.mapping.fields import (
    FirstValue,
    IdentifierFactory,
    MappingContext,
    build_extractor,
    normalize_names,
    source_field,
)
from indexer.reso.mapping.values import (
    UnmappableValue,
    describe_value,
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
from mappings.open_houses import find_time_zone

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


class PropertyTimeZone:
    """The time zone of a property: the first that the source gives, else the one of the whole source."""

    def __init__(self, entity: DictionaryEntity, identifiers: IdentifierFactory, default: ZoneInfo | None) -> None:
        self._extractors = [
            (source_field(value), FirstValue((value,), to_text, identifiers)) for value in entity.time_zone_sources
        ]
        self._default = default

    def __call__(self, context: MappingContext) -> ZoneInfo | None:
        unknown: list[tuple[str, str]] = []
        for field, extract in self._extractors:
            if (name := extract(context)) is not None:
                if (zone := find_time_zone(str(name))) is not None:
                    return zone
                unknown.append((field, f"is {describe_value(name)}: not a time zone"))
        if self._default is None:
            context.omitted += unknown
        return self._default


class OpenHouseMapper:
    def __init__(self, declared: Field, key: str, time_zone: PropertyTimeZone) -> None:
        self._members = frozenset(member.name for member in declared.members)
        self._key, self._time_zone = key, time_zone

    def __call__(self, context: MappingContext) -> tuple[list[dict[str, object]], ZoneInfo | None]:
        """Return the open houses in local times, sorted by date, start and key, and the time zone of the listing."""
        zone = self._time_zone(context)
        if not (parts := context.parts(OPEN_HOUSE)):
            return [], zone
        keyed = [
            (house, str(part.get(self._key) or "")) for part in parts if (house := _map_open_house(context, part, zone))
        ]
        keyed.sort(key=lambda pair: (pair[0]["Date"], pair[0].get("StartTime", ""), pair[1]))
        own = [{name: value for name, value in house.items() if name in self._members} for house, _ in keyed]
        return own, zone


class _LocalTime(NamedTuple):
    """A local time, with its day and when that is, if it has one.

    `doubt` is what is taken for granted of it; `is_zoned`: converted to the time zone of the property.
    """

    time: dt.time
    day: dt.date | None = None
    at: dt.datetime | None = None
    is_zoned: bool = False
    doubt: str = ""


_AS_WRITTEN = "without a time zone of the listing, shown as they are"
_FIRST_AFTER = "not within a day of the start, taken for the first such time after it"
_FIRST_OF_TWO = "in an hour that comes twice, taken for the first"


def _map_open_house(context: MappingContext, part: dict[str, Any], zone: ZoneInfo | None) -> dict[str, Any] | None:
    """Return an open house with all members; None if it is canceled, not public, or without a date."""
    if (kind := _public_type(context, part)) is None:
        return None
    start, end = (_read_time(context, part, name, zone) for name in ("OpenHouseStartTime", "OpenHouseEndTime"))
    if (date := _day(_convert(context, part, "OpenHouseDate", to_date), start)) is None:
        context.omitted.append((f"{OPEN_HOUSE}.OpenHouseDate", "is missing: the open house is left out"))
        return None
    if not _ends_within_a_day(start, end):
        context.assumed.append(
            (f"{OPEN_HOUSE}.OpenHouseEndTime", _FIRST_AFTER, describe_value(part["OpenHouseEndTime"]))
        )
    house = {"Date": date, "StartTime": start and start.time.isoformat(), "EndTime": end and end.time.isoformat()}
    house |= _livestream_fields(context, part, kind)
    house["Comment"] = _convert(context, part, "OpenHouseRemarks", to_text)
    return {name: value for name, value in house.items() if value is not None}


def _read_time(context: MappingContext, part: dict[str, Any], name: str, zone: ZoneInfo | None) -> _LocalTime | None:
    found: _LocalTime | None = _convert(context, part, name, lambda value: _local_time(value, zone))
    if found is not None and found.doubt:
        context.assumed.append((f"{OPEN_HOUSE}.{name}", found.doubt, describe_value(part[name])))
    return found


def _local_time(value: object, zone: ZoneInfo | None) -> _LocalTime | None:
    """Return a time at the property; raise UnmappableValue for one in UTC if it is unknown where that is."""
    if (time := to_time_of_day(value)) is not None:
        return _LocalTime(dt.time.fromisoformat(time))
    if (timestamp := to_datetime(value)) is None:
        return None
    local, is_zoned, doubt = timestamp, False, ""
    if not is_without_offset(value):
        if zone is not None:
            local, is_zoned = timestamp.astimezone(zone), True
            doubt = _FIRST_OF_TWO if local.fold else ""
        elif not timestamp.utcoffset():
            raise UnmappableValue(f"is {describe_value(value)}: without a time zone of the listing (--time-zone)")
        else:
            doubt = _AS_WRITTEN
    return _LocalTime(local.time().replace(microsecond=0, fold=0), local.date(), timestamp, is_zoned, doubt)


def _day(given: str | None, start: _LocalTime | None) -> str | None:
    """Return the day of the start at the listing: sources with times in UTC often give the day in UTC, too.

    A start that is further from the given day than a time zone can move it is only a time of day.
    """
    if start is None or start.day is None or given is None:
        return given or (start.day.isoformat() if start and start.day else None)
    is_near = abs(dt.date.fromisoformat(given) - start.day) <= _DAY
    return start.day.isoformat() if start.is_zoned and is_near else given


def _ends_within_a_day(start: _LocalTime | None, end: _LocalTime | None) -> bool:
    """Whether an end follows from its time alone: it is the first one after the start with this time."""
    if start is None or end is None or start.day is None or end.day is None or start.at is None or end.at is None:
        return True
    days = (end.day - start.day).days
    return start.at <= end.at and (days == 0 or (days == 1 and end.time < start.time))


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
