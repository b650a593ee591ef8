"""`$metadata` as CSDL XML, from the declarations of the entity sets, and the service document."""

from collections.abc import Iterable, Mapping
from functools import cache
from xml.etree import ElementTree as ET

from service.reso.entity_events.event_query import EVENT_PROPERTIES, FILTERABLE_PROPERTIES
from service.reso.entity_events.event_rows import EVENT_ENTITY_SET, SEQUENCE_PROPERTY
from service.reso.entity_sets.declarations import ENTITY_SETS
from service.reso.entity_sets.edm_types import EdmType
from service.reso.entity_sets.entity_set import EntitySet
from service.reso.expand.navigation import navigations

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
    _entity_type(schema, EVENT_ENTITY_SET, SEQUENCE_PROPERTY, EVENT_PROPERTIES)
    for name, entity_set in ENTITY_SETS.items():
        types = {title: declared.edm for title, declared in entity_set.properties.items()}
        element = _entity_type(schema, name, entity_set.key, types)
        _lookup_names(element, entity_set)
        _navigation_properties(element, name)
    container = ET.SubElement(schema, "EntityContainer", {"Name": "Default"})
    _entity_set(container, EVENT_ENTITY_SET, EVENT_PROPERTIES, FILTERABLE_PROPERTIES, (SEQUENCE_PROPERTY,))
    for name, entity_set in ENTITY_SETS.items():
        _entity_set(container, name, entity_set.properties, entity_set.filterable, entity_set.sortable)
    ET.indent(root)
    encoded: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return encoded


def _entity_type(schema: ET.Element, name: str, key: str, properties: Mapping[str, EdmType]) -> ET.Element:
    element = ET.SubElement(schema, "EntityType", {"Name": name})
    ET.SubElement(ET.SubElement(element, "Key"), "PropertyRef", {"Name": key})
    for title, edm in properties.items():
        facets = {"Nullable": "false"} if title == key or edm.is_collection else {}
        facets |= {"Scale": "variable"} if edm.is_decimal else {}
        ET.SubElement(element, "Property", {"Name": title, "Type": edm, **facets})
    return element


def _lookup_names(entity_type: ET.Element, entity_set: EntitySet) -> None:
    """Annotate lookups with the `LookupName` of their values in the entity set `Lookup`."""
    for element in entity_type.findall("Property"):
        name = element.attrib["Name"]
        if entity_set.properties[name].lookup:
            ET.SubElement(element, "Annotation", {"Term": _LOOKUP_NAME, "String": name})


def _navigation_properties(entity_type: ET.Element, name: str) -> None:
    for each in navigations(name).values():
        target = f"{NAMESPACE}.{each.target.name}"
        kind = f"Collection({target})" if each.children else target
        ET.SubElement(entity_type, "NavigationProperty", {"Name": each.name, "Type": kind})


def _entity_set(
    container: ET.Element, name: str, properties: Iterable[str], filtered: Iterable[str], ordered: Iterable[str]
) -> None:
    element = ET.SubElement(container, "EntitySet", {"Name": name, "EntityType": f"{NAMESPACE}.{name}"})
    for each in navigations(name).values():
        ET.SubElement(element, "NavigationPropertyBinding", {"Path": each.name, "Target": each.target.name})
    can_filter, can_order = {*filtered}, {*ordered}
    _restriction(
        element, "FilterRestrictions", "NonFilterableProperties", [p for p in properties if p not in can_filter]
    )
    _restriction(element, "SortRestrictions", "NonSortableProperties", [p for p in properties if p not in can_order])


def _restriction(entity_set: ET.Element, kind: str, member: str, names: Iterable[str]) -> None:
    annotation = ET.SubElement(entity_set, "Annotation", {"Term": f"{_CAPABILITIES}.{kind}"})
    value = ET.SubElement(ET.SubElement(annotation, "Record"), "PropertyValue", {"Property": member})
    paths = ET.SubElement(value, "Collection")
    for name in names:
        ET.SubElement(paths, "PropertyPath").text = name


def service_document() -> dict[str, object]:
    """Return the list of entity sets."""
    return {"value": [{"name": name, "kind": "EntitySet", "url": name} for name in ENTITY_SET_NAMES]}
