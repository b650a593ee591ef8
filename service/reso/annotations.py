"""Entities with full metadata, or with long numbers as strings, for the few clients that ask for them.

UI5 asks for `IEEE754Compatible=true`, and the client of .NET for `odata.metadata=full` with every `$select`. Their
entities are encoded as for all others and then annotated, member by member, so that others pay nothing.
"""

from collections.abc import Collection, Mapping
from decimal import Decimal
from functools import cache
from typing import NamedTuple

import msgspec
import orjson

from service.background import in_turns
from service.request_context import RequestContext
from service.reso.entity_events import EVENT_ENTITY_SET, EVENT_PROPERTIES, SEQUENCE_PROPERTY
from service.reso.metadata import NAMESPACE
from service.reso.protocol import FORMAT, SELECT, Format, entity_url, service_root_url
from service.reso.sets.declarations import ENTITY_SETS, Navigation, navigations
from service.reso.sets.edm_types import EdmType

_decode_rows = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_NULL = msgspec.Raw(b"null")
# The types of JSON that tell their own: texts and booleans.
_SELF_EVIDENT = frozenset({EdmType.STRING, EdmType.BOOLEAN})
_LONG_NUMBERS = frozenset({EdmType.INT64, EdmType.DECIMAL})


class _EntityType(NamedTuple):
    """The entities of a set, and the types of the properties that a format annotates."""

    name: str
    key: str
    annotated: Mapping[str, EdmType]
    links: Mapping[str, Navigation]

    @classmethod
    @cache
    def of(cls, name: str, chosen: Format) -> "_EntityType":
        if name == EVENT_ENTITY_SET:
            return cls(name, SEQUENCE_PROPERTY, _annotated(EVENT_PROPERTIES, chosen), {})
        types = {title: declared.edm for title, declared in ENTITY_SETS[name].properties.items()}
        return cls(name, ENTITY_SETS[name].key, _annotated(types, chosen), navigations(name))


def _annotated(types: Mapping[str, EdmType], chosen: Format) -> dict[str, EdmType]:
    return {
        name: edm
        for name, edm in types.items()
        if (edm not in _SELF_EVIDENT if chosen.is_full else chosen.is_ieee754 and edm in _LONG_NUMBERS)
    }


async def annotated(call: RequestContext, name: str, encoded: list[bytes]) -> list[bytes]:
    """Return parts of encoded entities of a set, as the format of the request has them."""
    chosen: Format = call.parameters[FORMAT]
    if not chosen.is_annotated:
        return encoded
    selected: Collection[str] | None = call.parameters[SELECT]
    of_set, root = _EntityType.of(name, chosen), service_root_url(call)
    rows: list[bytes] = []
    for part in encoded:
        rows += [
            _encode(_entity(chosen, root, of_set, row, selected))
            async for row in in_turns(_decode_rows(b"[%b]" % part))
        ]
    return rows


def annotated_value(chosen: Format, edm: EdmType, value: object) -> dict[str, object]:
    """Return the members of the response with one property, which has a value."""
    raw = msgspec.Raw(orjson.dumps(value))
    members = _value("", chosen, edm, raw) if _annotated({"": edm}, chosen) else {"": raw}
    return {name or "value": found for name, found in members.items()}


def _entity(
    chosen: Format, root: str, of_set: _EntityType, row: msgspec.Raw, selected: Collection[str] | None
) -> dict[str, object]:
    members = _decode_members(row)
    found: dict[str, object] = {}
    url = ""
    if chosen.is_full:
        key = orjson.loads(bytes(members[of_set.key]))
        url = entity_url(root, of_set.name, key) if isinstance(key, str) else f"{root}{of_set.name}({key})"
        found = {"@odata.type": f"#{NAMESPACE}.{of_set.name}", "@odata.id": url, "@odata.readLink": url}
    for name, raw in members.items():
        if name in of_set.annotated and raw != _NULL:
            found |= _value(name, chosen, of_set.annotated[name], raw)
        elif name not in of_set.links:
            found[name] = raw
    for name, link in of_set.links.items():
        is_asked_for = name in members or selected is None or name in selected
        if chosen.is_full and is_asked_for and (name in members or not link.is_former):
            found[f"{name}@odata.navigationLink"] = f"{url}/{name}"
        if name in members:
            found[name] = _related(chosen, root, link, members[name])
    return found


def _related(chosen: Format, root: str, link: Navigation, raw: msgspec.Raw) -> object:
    of_set = _EntityType.of(link.target.name, chosen)
    if link.children:
        return [_entity(chosen, root, of_set, row, ()) for row in _decode_rows(raw)]
    return None if raw == _NULL else _entity(chosen, root, of_set, raw, ())


def _value(name: str, chosen: Format, edm: EdmType, raw: msgspec.Raw) -> dict[str, object]:
    """Return an annotated member: with its type before it, or a number as a string."""
    types = {f"{name}@odata.type": f"#{edm.replace('Edm.', '')}"} if chosen.is_full else {}
    if not chosen.is_ieee754 or edm not in _LONG_NUMBERS:
        return {**types, name: raw}
    text = bytes(raw).decode()
    return {**types, name: f"{Decimal(text):f}" if "e" in text else text}
