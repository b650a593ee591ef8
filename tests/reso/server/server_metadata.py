"""What the server says of itself: EDMX and the service document."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import orjson

from tests.reso.server.error_responses import ODATA, ServerResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.reso.server.dialect import Dialect
    from tests.reso.server.schema import EntityType

NAMESPACE = "org.reso.metadata"
_EDMX = "http://docs.oasis-open.org/odata/ns/edmx"
_EDM = "http://docs.oasis-open.org/odata/ns/edm"


def metadata(entities: Mapping[str, EntityType], dialect: Dialect) -> ServerResponse:
    """Return the EDMX of entity types, and of the entity sets that a dialect has, in one schema."""
    root = ET.Element("edmx:Edmx", {"xmlns:edmx": _EDMX, "Version": "4.0"})
    schema = ET.SubElement(ET.SubElement(root, "edmx:DataServices"), "Schema", {"xmlns": _EDM, "Namespace": NAMESPACE})
    for entity in entities.values():
        _describe(schema, entity, dialect)
    container = ET.SubElement(schema, "EntityContainer", {"Name": "Container"})
    for name in addressable(entities, dialect):
        ET.SubElement(container, "EntitySet", {"Name": name, "EntityType": f"{NAMESPACE}.{name}"})
    return ServerResponse(
        200, ET.tostring(root, "utf-8", xml_declaration=True), ODATA | {"Content-Type": "application/xml"}
    )


def addressable(entities: Mapping[str, EntityType], dialect: Dialect) -> list[str]:
    """Return the names of the entity sets."""
    return [name for name in entities if name not in dialect.not_addressable]


def _describe(schema: ET.Element, entity: EntityType, dialect: Dialect) -> None:
    described = ET.SubElement(schema, "EntityType", {"Name": entity.name})
    ET.SubElement(ET.SubElement(described, "Key"), "PropertyRef", {"Name": entity.key})
    for field, type_ in entity.fields.items():
        ET.SubElement(described, "Property", {"Name": field, "Type": type_})
    for child in dialect.expanded.get(entity.name, ()):
        type_ = f"Collection({NAMESPACE}.{child})"
        ET.SubElement(described, "NavigationProperty", {"Name": child, "Type": type_})


def service_document(root: str, entities: Mapping[str, EntityType], dialect: Dialect) -> ServerResponse:
    """Return the names of all entity sets."""
    sets = [{"name": name, "kind": "EntitySet", "url": name} for name in addressable(entities, dialect)]
    body = {"@odata.context": f"{root}/$metadata", "value": sets}
    return ServerResponse(200, orjson.dumps(body), ODATA)
