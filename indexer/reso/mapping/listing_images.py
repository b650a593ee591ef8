"""ListingImages and the virtual tour, mapped from the media of a listing."""

from collections.abc import Sequence

from indexer.reso.mapping.converters import to_boolean, to_number, to_text, to_url
from indexer.reso.mapping.date_times import to_date
from indexer.reso.mapping.mapping_context import MappingContext
from indexer.reso.mapping.media_items import MediaItem
from indexer.reso.mapping.source_values import UnmappableValue, describe_value
from mappings.data_dictionary.model import MODIFICATION_TIMESTAMP
from mappings.fields import Field

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
    """Maps the photos of listings to images."""

    def __init__(self, declared: Field) -> None:
        """Take the declaration of the field, with its members."""
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
    """Return the items that are photos."""
    return [item for item in media if item.category in PHOTO_CATEGORIES]


def images_last_modified(context: MappingContext, photos: Sequence[MediaItem]) -> str | None:
    """Return the date of the newest change of a photo, None if no photo has a timestamp."""
    field = f"Media.{MODIFICATION_TIMESTAMP}"
    dates = (context.convert(field, to_date, photo.record.get(MODIFICATION_TIMESTAMP)) for photo in photos)
    return max((date for date in dates if date is not None), default=None)


def virtual_tour_url(media: Sequence[MediaItem]) -> str | None:
    """Return the URL of a virtual tour, preferably an unbranded one."""
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
