"""`$metadata`: what there is, as CSDL XML, from the declarations of the entity sets; and the service document."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import orjson

from service.reso import events
from service.reso.entities import ENTITY_SETS
from service.reso.happenings import FILTERED, PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.reso.edm import Edm

NAMESPACE = "org.reso.metadata"
_EDMX = "http://docs.oasis-open.org/odata/ns/edmx"
_EDM = "http://docs.oasis-open.org/odata/ns/edm"
_CAPABILITIES = "Org.OData.Capabilities.V1"
_VOCABULARY = "https://docs.oasis-open.org/odata/odata-vocabularies/v4.0/Org.OData.Capabilities.V1.xml"
NAMES = (events.NAME, *ENTITY_SETS)


@cache
def metadata() -> bytes:
    """Return the document: one schema, an entity type and an entity set for each name."""
    root = ET.Element("edmx:Edmx", {"Version": "4.0", "xmlns:edmx": _EDMX})
    vocabulary = ET.SubElement(root, "edmx:Reference", {"Uri": _VOCABULARY})
    ET.SubElement(vocabulary, "edmx:Include", {"Namespace": _CAPABILITIES, "Alias": "Capabilities"})
    schema = ET.SubElement(ET.SubElement(root, "edmx:DataServices"), "Schema", {"Namespace": NAMESPACE, "xmlns": _EDM})
    _entity_type(schema, events.NAME, events.NUMBER, PROPERTIES)
    for name, each in ENTITY_SETS.items():
        _entity_type(schema, name, each.key, {title: made.edm for title, made in each.properties.items()})
    container = ET.SubElement(schema, "EntityContainer", {"Name": "Default"})
    _entity_set(container, events.NAME, PROPERTIES, FILTERED, (events.NUMBER,))
    for name, each in ENTITY_SETS.items():
        _entity_set(container, name, each.properties, each.filtered, each.ordered)
    ET.indent(root)
    encoded: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return encoded


def _entity_type(schema: ET.Element, name: str, key: str, properties: Mapping[str, Edm]) -> None:
    made = ET.SubElement(schema, "EntityType", {"Name": name})
    ET.SubElement(ET.SubElement(made, "Key"), "PropertyRef", {"Name": key})
    for title, edm in properties.items():
        facets = {"Nullable": "false"} if title == key or edm.is_collection else {}
        facets |= {"Scale": "variable"} if edm.is_decimal else {}
        ET.SubElement(made, "Property", {"Name": title, "Type": edm, **facets})


def _entity_set(
    container: ET.Element, name: str, properties: Iterable[str], filtered: Iterable[str], ordered: Iterable[str]
) -> None:
    made = ET.SubElement(container, "EntitySet", {"Name": name, "EntityType": f"{NAMESPACE}.{name}"})
    can_filter, can_order = {*filtered}, {*ordered}
    _restricted(made, "FilterRestrictions", "NonFilterableProperties", [p for p in properties if p not in can_filter])
    _restricted(made, "SortRestrictions", "NonSortableProperties", [p for p in properties if p not in can_order])


def _restricted(entity_set: ET.Element, kind: str, member: str, names: Iterable[str]) -> None:
    annotation = ET.SubElement(entity_set, "Annotation", {"Term": f"{_CAPABILITIES}.{kind}"})
    value = ET.SubElement(ET.SubElement(annotation, "Record"), "PropertyValue", {"Property": member})
    paths = ET.SubElement(value, "Collection")
    for name in names:
        ET.SubElement(paths, "PropertyPath").text = name


def service_document(root: str) -> bytes:
    """Return the list of the entity sets; `root` is the URL of this document."""
    listed = [{"name": name, "kind": "EntitySet", "url": name} for name in NAMES]
    return orjson.dumps({"@odata.context": f"{root}$metadata", "value": listed})
