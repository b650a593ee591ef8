"""`$metadata` as CSDL JSON (OData 4.01), converted from the XML document, so that both say the same."""

from collections.abc import Iterator
from functools import cache
from typing import Any
from xml.etree import ElementTree as ET

import orjson

from service.reso.metadata_document import NAMESPACE, metadata_document

_Member = tuple[str, Any]
# The default type is not written.
_DEFAULT_TYPE = "Edm.String"
_COLLECTION = "Collection("
# Attributes that are numbers in JSON, unless they are a word such as `variable`.
_FACETS = frozenset({"MaxLength", "Precision", "Scale"})


@cache
def metadata_in_json() -> bytes:
    """Return the document."""
    root = ET.fromstring(metadata_document())  # noqa: S314 - our own
    document: dict[str, Any] = {"$Version": "4.01", "$EntityContainer": f"{NAMESPACE}.Default"}
    document["$Reference"] = {each.get("Uri"): _reference(each) for each in root if _tag(each) == "Reference"}
    for schema in root.iter():
        if _tag(schema) == "Schema":
            document[str(schema.get("Namespace"))] = dict(map(_schema_member, schema))
    return orjson.dumps(document)


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _reference(element: ET.Element) -> dict[str, Any]:
    return {"$Include": [{f"${name}": text for name, text in each.attrib.items()} for each in element]}


def _schema_member(element: ET.Element) -> _Member:
    """Return an entity type or the container, with its members."""
    members: dict[str, Any] = {"$Kind": _tag(element)}
    for each in element:
        members |= [_MEMBERS[_tag(each)](each)]
    return str(element.get("Name")), members


def _key(element: ET.Element) -> _Member:
    return "$Key", [each.get("Name") for each in element]


def _property(element: ET.Element) -> _Member:
    declared = _type(element)
    if declared.get("$Type") == _DEFAULT_TYPE:
        del declared["$Type"]
    declared |= {f"${name}": _number(text) for name, text in element.attrib.items() if name in _FACETS}
    return str(element.get("Name")), declared | _annotations(element)


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _navigation_property(element: ET.Element) -> _Member:
    declared = {"$Kind": "NavigationProperty", **_type(element)}
    pairs = [(each.get("Property"), each.get("ReferencedProperty")) for each in _each(element, "ReferentialConstraint")]
    return str(element.get("Name")), declared | ({"$ReferentialConstraint": dict(pairs)} if pairs else {})


def _type(element: ET.Element) -> dict[str, Any]:
    """Return the type; in XML a value may be null unless `Nullable` is false, in JSON if it is true."""
    name = str(element.get("Type"))
    is_collection = name.startswith(_COLLECTION)
    members: dict[str, Any] = {"$Collection": True} if is_collection else {}
    members["$Type"] = name.removeprefix(_COLLECTION).removesuffix(")") if is_collection else name
    return members if is_collection or element.get("Nullable") == "false" else {**members, "$Nullable": True}


def _entity_set(element: ET.Element) -> _Member:
    members: dict[str, Any] = {"$Collection": True, "$Type": element.get("EntityType")}
    if bound := {each.get("Path"): each.get("Target") for each in _each(element, "NavigationPropertyBinding")}:
        members["$NavigationPropertyBinding"] = bound
    return str(element.get("Name")), members | _annotations(element)


def _annotations(element: ET.Element) -> dict[str, Any]:
    return {f"@{each.get('Term')}": _value(each) for each in _each(element, "Annotation")}


def _value(element: ET.Element) -> Any:
    """Return the value of an annotation or of a property of a record."""
    for name in ("String", "EnumMember", "Path"):
        if name in element.attrib:
            return element.attrib[name]
    if "Bool" in element.attrib:
        return element.attrib["Bool"] == "true"
    (child,) = element
    if _tag(child) == "Collection":
        return [each.text for each in child]
    return {each.get("Property"): _value(each) for each in child}


def _each(element: ET.Element, name: str) -> Iterator[ET.Element]:
    return (each for each in element if _tag(each) == name)


_MEMBERS = {
    "Key": _key,
    "Property": _property,
    "NavigationProperty": _navigation_property,
    "EntitySet": _entity_set,
}
