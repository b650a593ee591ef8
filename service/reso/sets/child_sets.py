"""Entity sets of children, elements of a list in the records of the parents: photos, open houses, memberships of teams.

The key of a child is that of its parent, an exclamation mark and a suffix that identifies it among its siblings. No
character that keys of parents may have is before the exclamation mark, and no suffix has one, so children in the order
of their keys come parent by parent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from mappings import AGENT, LISTING, SOLD_LISTING
from mappings.data_dictionary import MODIFICATION_TIMESTAMP
from mappings.fields import text_in
from mappings.history import Change, change_type, changes_of, decode_past, standard_status
from mappings.open_houses import Token, identity, instants_of, numbered
from mappings.resource import Resource
from service.http.responses import JsonBytes
from service.reso.filter.clauses import IdentifierMatcher
from service.reso.filter.value_matchers import ConstantMatcher
from service.reso.ordering import ID
from service.reso.sets.child_tokens import BY_DAY, BY_START, TokenMatcher
from service.reso.sets.edm_types import EdmType, to_timestamp
from service.reso.sets.entity_set import (
    ColumnSearch,
    EntityHeader,
    EntityProperty,
    EntitySet,
    PropertyColumn,
    modification_column,
)

SEPARATOR = "!"
Values = dict[str, Any]


class ChildKey(NamedTuple):
    """A key of a child: the key of the parent, and the suffix. It sorts as children do."""

    parent: str
    suffix: str

    @classmethod
    def of(cls, text: str) -> ChildKey:
        """Return the parts of a key, without a suffix if it has no separator."""
        parent, separator, suffix = text.rpartition(SEPARATOR)
        return cls(parent, suffix) if separator else cls(text, "")

    @property
    def text(self) -> str:
        return f"{self.parent}{SEPARATOR}{self.suffix}"


class Child(NamedTuple):
    """A child: its key, its values, its position in the list, values and header of its parent, and its token."""

    key: ChildKey
    values: Values
    at: int
    of_parent: Any
    header: EntityHeader
    token: Token | None = None


@dataclass(frozen=True)
class ChildColumn(PropertyColumn):
    """A property of a child, which `read` returns; `tokens` compares it by tokens."""

    read: Callable[[Child], object] = field(default=lambda _: None)
    tokens: TokenMatcher | None = None

    @property
    def is_filterable(self) -> bool:
        return self.tokens is not None or super().is_filterable

    @property
    def is_sortable(self) -> bool:
        return self.tokens is not None or super().is_sortable


@dataclass(frozen=True)
class ChildSet(EntitySet):
    """An entity set of children.

    `member` is the list, `counted_by` the search field with the number of its elements, `identify` returns the suffix
    of a child's key from its values; `parent_members` are what else is read from the parent. `parent_key` and
    `parent_type` name the properties with the key and the entity set of the parent. `token_of` returns the token that
    the index has of a child, from its values, the suffix of its key and the header of its parent.
    """

    member: str
    counted_by: str
    identify: Callable[[Values], str]
    parent_key: str
    parent_type: str = ""
    token_of: Callable[[Values, str, EntityHeader], Token] | None = None
    parent_members: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Hash by name, which is unique."""
        return hash(self.name)

    def group(self, resource: Resource) -> str:
        """Return the field group that a key needs to see the list in records of a resource."""
        return self.properties[self.key].columns[resource].group

    hides_withheld = False  # whether keys with a display licence see no rows of a listing that was withheld once

    @property
    def origin(self) -> str:
        """Where the rows are from, as a sentence."""
        return f"Elements of `{self.member}`. {super().origin}"

    @cached_property
    def _decode(self) -> Callable[[JsonBytes], Any]:
        members = [(name, Any, None) for name in (self.member, *self.parent_members)]
        return msgspec.json.Decoder(msgspec.defstruct("Parent", members, gc=False)).decode

    def children(self, parent: str, record: JsonBytes, header: EntityHeader) -> list[Child]:
        """Return the children of a record in the order of its list."""
        decoded = self._decode(record)
        placed = [(at, values) for at, values in enumerate(self._elements(decoded, header)) if isinstance(values, dict)]
        suffixes, token_of = numbered(self.identify(values) for _, values in placed), self.token_of
        return [
            Child(ChildKey(parent, suffix), values, at, decoded, header, token_of and token_of(values, suffix, header))
            for suffix, (at, values) in zip(suffixes, placed, strict=True)
        ]

    def _elements(self, parent: Any, header: EntityHeader) -> Sequence[object]:  # noqa: ARG002 - of other sets
        """Return the values of the children of a decoded parent, in their order."""
        elements = getattr(parent, self.member)
        return elements if isinstance(elements, list) else ()

    def tokens(self, name: str) -> TokenMatcher | None:
        """Return how the tokens of children are compared by a property, None if there are none."""
        columns = self.properties[name].columns.values() if name in self.properties else ()
        return next((column.tokens for column in columns if isinstance(column, ChildColumn)), None)


@dataclass(frozen=True)
class HistorySet(ChildSet):
    """The entity set of the values that changes of a record replaced, the oldest first."""

    __hash__ = ChildSet.__hash__
    hides_withheld = True

    @property
    def origin(self) -> str:
        """Where the rows are from, as a sentence."""
        return f"Changes of prices and statuses. {super(ChildSet, self).origin}"

    def _elements(self, parent: Any, header: EntityHeader) -> Sequence[object]:
        """Return the values that the changes of a record replaced."""
        resource = LISTING if header.status else SOLD_LISTING
        present = {name: getattr(parent, name) for name in self.parent_members}
        changes = reversed([*changes_of(resource, decode_past(header.past), present)])
        return [_change_values(change, name) for change in changes for name in change.previous]


_PROPERTIES = (LISTING, SOLD_LISTING)
# The sizes of an image, the one that best represents it first.
_URLS = ("FullURL", "RawURL", "GalleryURL", "SmallURL", "ThumbURL")
_IDENTITY_DIGITS = 16
# Of the Data Dictionary's lookup MediaType; another type is given as it is.
_MEDIA_TYPES = frozenset({"avif", "bmp", "gif", "heic", "jpeg", "png", "tiff", "webp"})
_NOT_SEARCHED = ColumnSearch()
_BY_PARENT = ColumnSearch(IdentifierMatcher(), ID)
_LIVESTREAM, _PUBLIC = "Livestream Public", "Public"


class _Declared(NamedTuple):
    """A property: its type, where its value comes from, how it is read, and how it is searched, if it is."""

    edm: EdmType
    source: str
    read: Callable[[Child], object]
    search: ColumnSearch = _NOT_SEARCHED
    lookup: tuple[str, ...] = ()
    tokens: TokenMatcher | None = None


def _own_key(source: str) -> _Declared:
    return _Declared(EdmType.STRING, source, lambda child: child.key.text, _BY_PARENT)


def _parent_key(source: str) -> _Declared:
    return _Declared(EdmType.STRING, source, lambda child: child.key.parent, _BY_PARENT)


def _modified() -> _Declared:
    column = modification_column()
    return _Declared(
        EdmType.DATE_TIME, column.source_member, lambda child: to_timestamp(child.header.clock), column.search
    )


def _of_parent(member: str) -> _Declared:
    read = attrgetter(f"of_parent.{member}")
    return _Declared(EdmType.STRING, member, lambda child: text_in(read(child)))


def _value(edm: EdmType, member: str, tokens: TokenMatcher | None = None) -> _Declared:
    return _Declared(edm, member, lambda child: child.values.get(member), tokens=tokens)


def _text(member: str) -> _Declared:
    return _Declared(EdmType.STRING, member, lambda child: text_in(child.values.get(member)))


def _derived(edm: EdmType, source: str, read: Callable[[Values], object], *lookup: str) -> _Declared:
    return _Declared(edm, source, lambda child: read(child.values), lookup=lookup)


def _constant(value: str, search: ColumnSearch = _NOT_SEARCHED) -> _Declared:
    return _Declared(EdmType.STRING, f"always {value}", lambda _: value, search, (value,))


def _main_url(values: Values) -> object:
    return next((values[name] for name in _URLS if values.get(name)), None)


def _image_identity(values: Values) -> str:
    """Return a hash of the URL: titles, sizes and order change, the URL names the photo."""
    named = _main_url(values) or msgspec.json.encode(values, order="sorted").decode()
    return sha256(str(named).encode("utf-8", "surrogatepass")).hexdigest()[:_IDENTITY_DIGITS]


def _media_type(values: Values) -> object:
    kind = values.get("MimeType")
    short = str(kind).removeprefix("image/")
    return short if short in _MEDIA_TYPES else kind


def _open_house_token(values: Values, suffix: str, header: EntityHeader) -> Token:
    day, start, end = (values.get(member) for member in ("Date", "StartTime", "EndTime"))
    return Token.of(suffix, day, start, end, header.property_time_zone)


def _instant(child: Child, at: int) -> str | None:
    """Return the start or the end of an open house with its offset; None if its time zone is unknown."""
    instant = instants_of(child.values, child.header.property_time_zone)[at]
    return None if instant is None else instant.isoformat()


def _open_house_type(values: Values) -> str | None:
    is_virtual = values.get("VirtualOpenHouseYN")
    return None if is_virtual is None else _LIVESTREAM if is_virtual else _PUBLIC


def _team_identity(values: Values) -> str:
    team = str(values.get("uuid") or "")
    return team if team and "!" not in team else sha256(team.encode("utf-8", "surrogatepass")).hexdigest()


def _child_set(
    name: str,
    resources: tuple[Resource, ...],
    member: str,
    declared: dict[str, _Declared],
    kind: type[ChildSet] = ChildSet,
    **about: Any,
) -> ChildSet:
    """Return the set of the elements of a member; the key is declared first."""
    key = next(iter(declared))
    properties: dict[str, EntityProperty] = {}
    for title, column in declared.items():
        columns: dict[Resource, Any] = {}
        for resource in resources:
            group = next((known.group for known in resource.fields if known.name == member), "")
            columns[resource] = ChildColumn(
                column.source,
                search=column.search,
                group=group,
                lookup=column.lookup,
                read=column.read,
                tokens=column.tokens,
            )
        properties[title] = EntityProperty(title, column.edm, columns, is_key=title == key)
    return kind(name, key, resources, properties, member, **about)


def _media() -> ChildSet:
    member = "ListingImages"
    declared = {
        "MediaKey": _own_key(member),
        MODIFICATION_TIMESTAMP: _modified(),
        "ResourceName": _constant("Property", ColumnSearch(ConstantMatcher("Property"))),
        "ResourceRecordKey": _parent_key("PlatformListingId"),
        "ResourceRecordID": _of_parent("ListingID"),
        "Order": _Declared(EdmType.INT64, "position in the list, from 0", lambda child: child.at),
        "MediaCategory": _constant("Photo"),
        "MediaType": _derived(EdmType.STRING, "MimeType", _media_type),
        "MediaURL": _derived(EdmType.STRING, _URLS[0], _main_url),
        "PreferredPhotoYN": _value(EdmType.BOOLEAN, "IsMainListingImage"),
        "ImageWidth": _value(EdmType.INT64, "Width"),
        "ImageHeight": _value(EdmType.INT64, "Height"),
        "ShortDescription": _text("Title"),
        "LongDescription": _text("Description"),
        # The Data Dictionary has no fields for them.
        **{name: _text(name) for name in ("Caption", *_URLS[1:])},
    }
    return _child_set(
        "Media",
        _PROPERTIES,
        member,
        declared,
        counted_by="photo_count",
        identify=_image_identity,
        parent_key="ResourceRecordKey",
        parent_type="ResourceName",
        parent_members=("ListingID",),
    )


def _open_houses() -> ChildSet:
    member = "OpenHouse"
    declared = {
        "OpenHouseKey": _own_key(member),
        MODIFICATION_TIMESTAMP: _modified(),
        "ListingKey": _parent_key("PlatformListingId"),
        "ListingId": _of_parent("ListingID"),
        "OpenHouseDate": _value(EdmType.DATE, "Date", BY_DAY),
        "OpenHouseStartTime": _Declared(EdmType.DATE_TIME, "StartTime", partial(_instant, at=0), tokens=BY_START),
        "OpenHouseEndTime": _Declared(EdmType.DATE_TIME, "EndTime", partial(_instant, at=1)),
        "OpenHouseType": _derived(EdmType.STRING, "VirtualOpenHouseYN", _open_house_type, _LIVESTREAM, _PUBLIC),
        "LivestreamOpenHouseURL": _text("VirtualOpenHouseURL"),
        "OpenHouseRemarks": _text("Comment"),
    }
    return _child_set(
        "OpenHouse",
        _PROPERTIES,
        member,
        declared,
        counted_by="open_house_count",
        identify=lambda values: identity(values.get("Date"), values.get("StartTime")),
        token_of=_open_house_token,
        parent_key="ListingKey",
        parent_members=("ListingID",),
    )


# The remembered members, under the names of the Data Dictionary.
_REMEMBERED = {"ListPrice": "ListPrice", "SoldPrice": "ClosePrice", "Status": "StandardStatus"}


def _change_values(change: Change, name: str) -> Values:
    """Return the properties of what a change did to a member."""
    shown = standard_status if name == "Status" else text_in
    return {
        MODIFICATION_TIMESTAMP: None if change.at is None else to_timestamp(change.at),
        "ChangeType": change_type(change),
        "FieldName": _REMEMBERED[name],
        "PreviousValue": shown(change.previous[name]),
        "NewValue": shown(change.new[name]),
    }


def _change_identity(values: Values) -> str:
    """Return what sorts like the changes: the time of one, and its field."""
    time = re.sub("[^0-9]", "", values[MODIFICATION_TIMESTAMP] or "0")
    return f"{time}-{values['FieldName']}"


def _of_change(edm: EdmType, name: str, *lookup: str) -> _Declared:
    return _Declared(edm, "past", lambda child: child.values.get(name), lookup=lookup)


def _history() -> ChildSet:
    declared = {
        "HistoryTransactionalKey": _own_key("past"),
        MODIFICATION_TIMESTAMP: _of_change(EdmType.DATE_TIME, MODIFICATION_TIMESTAMP),
        "ResourceName": _constant("Property", ColumnSearch(ConstantMatcher("Property"))),
        "ResourceRecordKey": _parent_key("PlatformListingId"),
        "ResourceRecordID": _of_parent("ListingID"),
        "ChangeType": _of_change(EdmType.STRING, "ChangeType"),
        "FieldName": _of_change(EdmType.STRING, "FieldName", *_REMEMBERED.values()),
        "PreviousValue": _of_change(EdmType.STRING, "PreviousValue"),
        "NewValue": _of_change(EdmType.STRING, "NewValue"),
    }
    return _child_set(
        "HistoryTransactional",
        _PROPERTIES,
        "past",
        declared,
        HistorySet,
        counted_by="history_count",
        identify=_change_identity,
        parent_key="ResourceRecordKey",
        parent_type="ResourceName",
        parent_members=("ListingID", *_REMEMBERED),
    )


def _team_members() -> ChildSet:
    member = "teams"
    declared = {
        "TeamMemberKey": _own_key(member),
        MODIFICATION_TIMESTAMP: _modified(),
        "MemberKey": _parent_key("agent_uuid"),
        "TeamKey": _text("uuid"),
        "TeamMemberType": _text("member_category"),
    }
    return _child_set(
        "TeamMembers",
        (AGENT,),
        member,
        declared,
        counted_by="team_count",
        identify=_team_identity,
        parent_key="MemberKey",
    )


CHILD_SETS: dict[str, ChildSet] = {made.name: made for made in (_media(), _open_houses(), _history(), _team_members())}
