"""ListingImages, and the virtual tour, out of the media of a listing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.reso.left_out import LeftOut, shown
from indexer.reso.moments import day
from indexer.reso.values import boolean, number, text
from mappings.dictionary import MODIFIED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.reso.media import Medium
    from indexer.reso.reading import Reading
    from mappings.fields import Field

# As `bare` leaves them; the empty one is of media without a category.
PHOTO = ("photo", "")
_TOURS = ("unbrandedvirtualtour", "virtualtour", "brandedvirtualtour")
_SIZES = ("FullURL", "GalleryURL", "RawURL", "SmallURL", "ThumbURL")
_MIME_TYPES = {
    **{name: f"image/{name}" for name in ("avif", "bmp", "gif", "heic", "jpeg", "png", "tiff", "webp")},
    "jpg": "image/jpeg",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
}


class Images:
    """Makes the images of a resource's listings."""

    def __init__(self, declared: Field) -> None:
        """Take the members that an image has."""
        self._members = frozenset(member.name for member in declared.members)

    def __call__(self, reading: Reading, photos: Sequence[Medium]) -> list[dict[str, object]]:
        """Return the images in order. The main one is the first preferred one, else the first."""
        if not photos:
            return []
        main = next((photo for photo in photos if _is_preferred(reading, photo)), photos[0])
        return [self._image(reading, photo, is_main=photo is main) for photo in photos]

    def _image(self, reading: Reading, photo: Medium, *, is_main: bool) -> dict[str, object]:
        title = _text(reading, photo, "ShortDescription")
        made: dict[str, object] = dict.fromkeys(_SIZES, photo.url)
        made["Title"] = made["Caption"] = title
        made["Description"] = _text(reading, photo, "LongDescription")
        made["MimeType"] = reading.take("Media.MediaType", mime_type, photo.record.get("MediaType"))
        made["IsMainListingImage"] = is_main
        made["Width"] = reading.take("Media.ImageWidth", number, photo.record.get("ImageWidth"))
        made["Height"] = reading.take("Media.ImageHeight", number, photo.record.get("ImageHeight"))
        return {name: value for name, value in made.items() if value is not None and name in self._members}


def photos(media: Sequence[Medium]) -> list[Medium]:
    """Return those that are photos."""
    return [medium for medium in media if medium.category in PHOTO]


def last_modified(reading: Reading, photos: Sequence[Medium]) -> str | None:
    """Return the day of the newest change of an image, None if none says when it was changed."""
    field = f"Media.{MODIFIED}"
    days = (reading.take(field, day, photo.record.get(MODIFIED)) for photo in photos)
    return max((found for found in days if found is not None), default=None)


def virtual_tour(media: Sequence[Medium]) -> str | None:
    """Return the address of a virtual tour, rather one without advertising."""
    tours = [medium for medium in media if medium.category in _TOURS]
    return min(tours, key=lambda tour: _TOURS.index(tour.category)).url if tours else None


def mime_type(value: object) -> str | None:
    """Return the MIME type of an image; raise LeftOut for what is no type of one."""
    if (kind := text(value)) is None or "/" in kind:
        return kind
    if (known := _MIME_TYPES.get(kind.casefold())) is None:
        raise LeftOut(f"is {shown(kind)}: no type of an image")
    return known


def _is_preferred(reading: Reading, photo: Medium) -> bool:
    value = photo.record.get("PreferredPhotoYN")
    return value is True or (value is not None and reading.take("Media.PreferredPhotoYN", boolean, value) is True)


def _text(reading: Reading, photo: Medium, name: str) -> str | None:
    value = photo.record.get(name)
    taken: str | None = None if value is None else reading.take(f"Media.{name}", text, value)
    return taken
