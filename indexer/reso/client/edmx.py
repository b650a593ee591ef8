"""The entity sets of a source and their fields, parsed from `$metadata`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn
from xml.etree import ElementTree as ET
from xml.parsers import expat

from indexer.reso.client.odata_response import TransientSourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of elements; metadata has about eight.
_MAX_DEPTH = 64
_HINT = "Is this the root of a RESO Web API?"


def parse_entity_sets(metadata: bytes) -> dict[str, frozenset[str]]:
    """Return the fields of each entity set; raise TransientSourceError for anything but OData metadata."""
    try:
        _refuse_document_type(metadata)
        root = ET.fromstring(metadata)  # noqa: S314 - it has no document type
    except (ET.ParseError, expat.ExpatError, ValueError, LookupError) as error:
        raise TransientSourceError(f"The metadata is not valid XML: {error}. {_HINT}") from None
    types = {element.get("Name", ""): element for element in root.iter() if _is(element, "EntityType")}
    entity_sets = {
        element.get("Name", ""): _fields(element.get("EntityType", "").rpartition(".")[2], types)
        for element in root.iter()
        if _is(element, "EntitySet")
    }
    if not entity_sets:
        raise TransientSourceError(f"The metadata has no entity sets. {_HINT}")
    return entity_sets


def _refuse_document_type(metadata: bytes) -> None:
    """Raise TransientSourceError for a document type or deep nesting, in any encoding that the parser knows.

    OData metadata needs neither, and entity expansion can turn a short document into a huge one.
    """
    parser, depth = expat.ParserCreate(), 0

    def refuse(*_: object) -> NoReturn:
        raise TransientSourceError(f"The metadata declares a document type, which is not supported. {_HINT}")

    def start(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise TransientSourceError(f"The metadata has more than {_MAX_DEPTH} levels of elements. {_HINT}")

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.Parse(metadata, True)  # noqa: FBT003 - the signature of expat


def _fields(type_name: str, types: Mapping[str, ET.Element]) -> frozenset[str]:
    """Return the fields of a type and its base types."""
    names: set[str] = set()
    unvisited = dict(types)
    while (declared := unvisited.pop(type_name, None)) is not None:
        names |= {element.get("Name", "") for element in declared if _is(element, "Property")}
        type_name = declared.get("BaseType", "").rpartition(".")[2]
    return frozenset(names)


def _is(element: ET.Element, name: str) -> bool:
    """Compare local names: the namespace differs between OData versions."""
    return element.tag.rpartition("}")[2] == name
