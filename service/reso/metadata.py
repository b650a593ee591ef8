"""`$metadata` from the declarations of the entity sets, as CSDL XML and as CSDL JSON, and the service document.

JSON (OData 4.01) is converted from the XML document, so that both say the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any
from xml.etree import ElementTree as ET

import orjson

from service.reso.entity_events import EVENT_ENTITY_SET, EVENT_PROPERTIES, FILTERABLE_PROPERTIES, SEQUENCE_PROPERTY
from service.reso.sets.declarations import ENTITY_SETS, declared_navigations
from service.reso.sets.edm_types import EdmType
from service.reso.sets.entity_set import EntitySet

NAMESPACE = "org.reso.metadata"
_EDMX = "http://docs.oasis-open.org/odata/ns/edmx"
_EDM = "http://docs.oasis-open.org/odata/ns/edm"
_CAPABILITIES = "Org.OData.Capabilities.V1"
_LOOKUP_NAME = "RESO.OData.Metadata.LookupName"
_VOCABULARY = "https://docs.oasis-open.org/odata/odata-vocabularies/v4.0/Org.OData.Capabilities.V1.xml"
ENTITY_SET_NAMES = (EVENT_ENTITY_SET, *ENTITY_SETS)


@cache
def metadata_document() -> bytes:
    """Return the document: one schema, an entity type and an entity set for each name."""
    root = ET.Element("edmx:Edmx", {"Version": "4.0", "xmlns:edmx": _EDMX})
    vocabulary = ET.SubElement(root, "edmx:Reference", {"Uri": _VOCABULARY})
    ET.SubElement(vocabulary, "edmx:Include", {"Namespace": _CAPABILITIES, "Alias": "Capabilities"})
    schema = ET.SubElement(ET.SubElement(root, "edmx:DataServices"), "Schema", {"Namespace": NAMESPACE, "xmlns": _EDM})
    _add_entity_type(schema, EVENT_ENTITY_SET, SEQUENCE_PROPERTY, EVENT_PROPERTIES)
    for name, entity_set in ENTITY_SETS.items():
        types = {title: declared.edm for title, declared in entity_set.properties.items()}
        element = _add_entity_type(schema, name, entity_set.key, types)
        _add_lookup_names(element, entity_set)
        _add_navigation_properties(element, name)
    container = ET.SubElement(schema, "EntityContainer", {"Name": "Default"})
    _add_entity_set(container, EVENT_ENTITY_SET, EVENT_PROPERTIES, FILTERABLE_PROPERTIES, (SEQUENCE_PROPERTY,))
    for name, entity_set in ENTITY_SETS.items():
        _add_entity_set(container, name, entity_set.properties, entity_set.filterable, entity_set.sortable)
    ET.indent(root)
    encoded: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return encoded


def _add_entity_type(schema: ET.Element, name: str, key: str, properties: Mapping[str, EdmType]) -> ET.Element:
    element = ET.SubElement(schema, "EntityType", {"Name": name})
    ET.SubElement(ET.SubElement(element, "Key"), "PropertyRef", {"Name": key})
    for title, edm in properties.items():
        facets = {"Nullable": "false"} if title == key or edm.is_collection else {}
        facets |= {"Scale": "variable"} if edm.is_decimal else {}
        ET.SubElement(element, "Property", {"Name": title, "Type": edm, **facets})
    return element


def _add_lookup_names(entity_type: ET.Element, entity_set: EntitySet) -> None:
    """Annotate lookups with the `LookupName` of their values in the entity set `Lookup`."""
    for element in entity_type.findall("Property"):
        name = element.attrib["Name"]
        if entity_set.properties[name].lookup:
            ET.SubElement(element, "Annotation", {"Term": _LOOKUP_NAME, "String": name})


def _add_navigation_properties(entity_type: ET.Element, name: str) -> None:
    for navigation in declared_navigations(name):
        target = f"{NAMESPACE}.{navigation.target.name}"
        kind = f"Collection({target})" if navigation.children else target
        ET.SubElement(entity_type, "NavigationProperty", {"Name": navigation.name, "Type": kind})


def _add_entity_set(
    container: ET.Element, name: str, properties: Iterable[str], filtered: Iterable[str], ordered: Iterable[str]
) -> None:
    element = ET.SubElement(container, "EntitySet", {"Name": name, "EntityType": f"{NAMESPACE}.{name}"})
    for navigation in declared_navigations(name):
        ET.SubElement(element, "NavigationPropertyBinding", {"Path": navigation.name, "Target": navigation.target.name})
    can_filter, can_order = {*filtered}, {*ordered}
    _add_restriction(
        element, "FilterRestrictions", "NonFilterableProperties", [p for p in properties if p not in can_filter]
    )
    _add_restriction(
        element, "SortRestrictions", "NonSortableProperties", [p for p in properties if p not in can_order]
    )


def _add_restriction(entity_set: ET.Element, kind: str, member: str, names: Iterable[str]) -> None:
    annotation = ET.SubElement(entity_set, "Annotation", {"Term": f"{_CAPABILITIES}.{kind}"})
    value = ET.SubElement(ET.SubElement(annotation, "Record"), "PropertyValue", {"Property": member})
    paths = ET.SubElement(value, "Collection")
    for name in names:
        ET.SubElement(paths, "PropertyPath").text = name


def service_document() -> dict[str, object]:
    """Return the list of entity sets."""
    return {"value": [{"name": name, "kind": "EntitySet", "url": name} for name in ENTITY_SET_NAMES]}


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
    document["$Reference"] = {child.get("Uri"): _reference(child) for child in root if _tag(child) == "Reference"}
    for schema in root.iter():
        if _tag(schema) == "Schema":
            document[str(schema.get("Namespace"))] = dict(map(_schema_member, schema))
    return orjson.dumps(document)


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _reference(element: ET.Element) -> dict[str, Any]:
    return {"$Include": [{f"${name}": text for name, text in child.attrib.items()} for child in element]}


def _schema_member(element: ET.Element) -> _Member:
    """Return an entity type or the container, with its members."""
    members: dict[str, Any] = {"$Kind": _tag(element)}
    for child in element:
        members |= [_MEMBERS[_tag(child)](child)]
    return str(element.get("Name")), members


def _key(element: ET.Element) -> _Member:
    return "$Key", [child.get("Name") for child in element]


def _property(element: ET.Element) -> _Member:
    declared = _type(element)
    if declared.get("$Type") == _DEFAULT_TYPE:
        del declared["$Type"]
    declared |= {f"${name}": _number(text) for name, text in element.attrib.items() if name in _FACETS}
    return str(element.get("Name")), declared | _annotations(element)


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _navigation_property(element: ET.Element) -> _Member:
    return str(element.get("Name")), {"$Kind": "NavigationProperty", **_type(element)}


def _type(element: ET.Element) -> dict[str, Any]:
    """Return the type; in XML a value may be null unless `Nullable` is false, in JSON if it is true."""
    name = str(element.get("Type"))
    is_collection = name.startswith(_COLLECTION)
    members: dict[str, Any] = {"$Collection": True} if is_collection else {}
    members["$Type"] = name.removeprefix(_COLLECTION).removesuffix(")") if is_collection else name
    return members if is_collection or element.get("Nullable") == "false" else {**members, "$Nullable": True}


def _entity_set(element: ET.Element) -> _Member:
    members: dict[str, Any] = {"$Collection": True, "$Type": element.get("EntityType")}
    if bound := {
        binding.get("Path"): binding.get("Target") for binding in _children(element, "NavigationPropertyBinding")
    }:
        members["$NavigationPropertyBinding"] = bound
    return str(element.get("Name")), members | _annotations(element)


def _annotations(element: ET.Element) -> dict[str, Any]:
    return {f"@{annotation.get('Term')}": _value(annotation) for annotation in _children(element, "Annotation")}


def _value(element: ET.Element) -> Any:
    """Return the value of an annotation or of a property of a record."""
    if "String" in element.attrib:
        return element.attrib["String"]
    (child,) = element
    if _tag(child) == "Collection":
        return [member.text for member in child]
    return {member.get("Property"): _value(member) for member in child}


def _children(element: ET.Element, name: str) -> Iterator[ET.Element]:
    return (child for child in element if _tag(child) == name)


_MEMBERS = {
    "Key": _key,
    "Property": _property,
    "NavigationProperty": _navigation_property,
    "EntitySet": _entity_set,
}
