"""The public media of a record, in their order."""

from collections.abc import Iterable
from math import inf
from typing import Any

from indexer.reso.mapping.converters import to_boolean, to_number, to_url
from indexer.reso.mapping.extractors import build_extractor, source_field
from indexer.reso.mapping.identifiers import IdentifierFactory
from indexer.reso.mapping.lookup_tables import normalize_names
from indexer.reso.mapping.mapping_context import MappingContext
from indexer.reso.mapping.source_values import UnmappableValue
from mappings.data_dictionary.model import DictionaryEntity

MEDIA_ENTITY = "Media"
_DELETED = normalize_names(["Deleted"])


class MediaItem:
    """A media record with its URL and its normalized category, empty if it has none."""

    __slots__ = ("category", "record", "url")

    def __init__(self, record: dict[str, Any], url: str, category: str) -> None:
        """Take the record and the values already looked up."""
        self.record = record
        self.url = url
        self.category = category


class MediaSelector:
    """Selects the public media of a record."""

    def __init__(self, entity: DictionaryEntity, identifiers: IdentifierFactory) -> None:
        """Compile the flag of private media."""
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
