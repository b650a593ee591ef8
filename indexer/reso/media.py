"""The media of a record that anybody may see, in their order."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from indexer.reso.left_out import LeftOut
from indexer.reso.spelling import among
from indexer.reso.values import address, boolean, number
from indexer.reso.ways import origin, way

if TYPE_CHECKING:
    from collections.abc import Iterable

    from indexer.reso.identifiers import Identifiers
    from indexer.reso.reading import Reading
    from mappings.dictionary import Entity

MEDIA = "Media"
_GONE = among(["Deleted"])


class Medium:
    """One of them: the record, its address, and its category as `bare` leaves it, empty where none is given."""

    __slots__ = ("category", "record", "url")

    def __init__(self, record: dict[str, Any], url: str, category: str) -> None:
        """Keep what was looked up."""
        self.record = record
        self.url = url
        self.category = category


class Media:
    """Finds the media of records."""

    def __init__(self, entity: Entity, identifiers: Identifiers) -> None:
        """Compile what tells those that not everybody may see."""
        self._key = entity.key
        closed = entity.not_public
        self._closed = None if closed is None else (f"{MEDIA}.{origin(closed)}", way(closed, identifiers))

    def of(self, reading: Reading) -> list[Medium]:
        """Return the media of a record, ordered by Order, those without it last, then by key."""
        public = [part for part in reading.parts(MEDIA) if self._is_public(reading, part)]
        if len(public) > 1:
            public.sort(key=self._place)
        return [medium for part in public if (medium := _medium(reading, part)) is not None]

    def _place(self, part: dict[str, Any]) -> tuple[float, str]:
        return _order(part.get("Order")), str(part.get(self._key) or "")

    def _is_public(self, reading: Reading, part: dict[str, Any]) -> bool:
        """Whether everybody may see it; what cannot be read is taken for no."""
        if self._closed is None:
            return True
        field, look = self._closed
        try:
            return boolean(look(reading, part)) is not True
        except LeftOut as left:
            reading.left_out.append((field, left.reason))
            return False


def of_category(media: Iterable[Medium], *categories: str) -> Medium | None:
    """Return the first of the first category that any has; a category is spelt as `bare` does."""
    media = list(media)
    return next((medium for category in categories for medium in media if medium.category == category), None)


def _order(value: object) -> float:
    """Return a place in the order, which may be negative; infinite where none is given."""
    if type(value) is int and -(2**53) < value < 2**53:
        return value
    try:
        found = number(value)
    except LeftOut:
        return inf
    return inf if found is None else found


def _medium(reading: Reading, part: dict[str, Any]) -> Medium | None:
    """Return a medium; None without an address, and for what is deleted or of a category that cannot be read."""
    if (url := reading.take("Media.MediaURL", address, part.get("MediaURL"))) is None:
        return None
    state = reading.spelt("Media.MediaStatus", part.get("MediaStatus"))
    category = reading.spelt("Media.MediaCategory", part.get("MediaCategory"))
    return None if state is None or state in _GONE or category is None else Medium(part, url, category)
