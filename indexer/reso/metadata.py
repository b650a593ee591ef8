"""What a source says of itself: its entities and their fields, read from `$metadata`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from indexer.reso.answers import Passing

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUESTION = "Is this the root of a RESO Web API?"


def entities(metadata: bytes) -> dict[str, frozenset[str]]:
    """Return the fields of each entity set; raise Passing for what is no OData description."""
    if b"<!DOCTYPE" in metadata or b"<!ENTITY" in metadata:
        # No description needs them, and entities are how a small text becomes a large one.
        raise Passing(f"It declares a document type and is not read. {_QUESTION}")
    try:
        root = ET.fromstring(metadata)  # noqa: S314 - see above
    except ET.ParseError as error:
        raise Passing(f"It is no XML: {error}. {_QUESTION}") from None
    types = {each.get("Name", ""): each for each in root.iter() if _is(each, "EntityType")}
    sets = {each.get("Name", ""): each.get("EntityType", "") for each in root.iter() if _is(each, "EntitySet")}
    found = {name: _fields(kind.rpartition(".")[2], types) for name, kind in sets.items()}
    if not found:
        raise Passing(f"It names no entity sets. {_QUESTION}")
    return found


def _fields(kind: str, types: Mapping[str, ET.Element]) -> frozenset[str]:
    """Return the fields of a type and of what it is derived from."""
    names: set[str] = set()
    left = dict(types)
    while (declared := left.pop(kind, None)) is not None:
        names |= {each.get("Name", "") for each in declared if _is(each, "Property")}
        kind = declared.get("BaseType", "").rpartition(".")[2]
    return frozenset(names)


def _is(element: ET.Element, name: str) -> bool:
    """Whether an element has a name, in whatever version's namespace."""
    return element.tag.rpartition("}")[2] == name
