"""The entity sets of a source, their fields and the members that hold related records, parsed from `$metadata`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.etree import ElementTree as ET
from xml.parsers import expat

from indexer.reso.client.odata import TransientSourceError

# Of elements; metadata has about eight.
_MAX_DEPTH = 64
_HINT = "Is this the root of a RESO Web API?"


@dataclass(frozen=True)
class EntityMetadata:
    """An entity set: the Edm types of its fields, and the fields of the records in its members.

    Members are navigation properties, which `$expand` adds, and properties that hold records themselves.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    navigation: Mapping[str, frozenset[str]] = field(default_factory=dict)
    embedded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    lookups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by field: the name of each number

    def __contains__(self, name: str) -> bool:
        return name in self.fields


def parse_entity_sets(metadata: bytes) -> dict[str, EntityMetadata]:
    """Return the entity sets by name; raise TransientSourceError for anything but OData metadata."""
    try:
        _refuse_document_type(metadata)
        root = ET.fromstring(metadata)  # noqa: S314 - it has no document type
    except (ET.ParseError, expat.ExpatError, ValueError, LookupError) as error:
        raise TransientSourceError(f"The metadata is not valid XML: {error}. {_HINT}") from None
    kinds = ("EntityType", "ComplexType")
    types = {element.get("Name", ""): element for element in root.iter() if any(_is(element, kind) for kind in kinds)}
    enums = {element.get("Name", ""): _names_of(element) for element in root.iter() if _is(element, "EnumType")}
    entity_sets = {
        element.get("Name", ""): _describe(_type_name(element.get("EntityType", "")), types, enums)
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


def _names_of(enum: ET.Element) -> dict[str, str]:
    """Return the names of an enumeration by number: a member without a value is one more than the member before."""
    names: dict[str, str] = {}
    value = -1
    for member in (child for child in enum if _is(child, "Member")):
        given = member.get("Value", "")
        value = int(given) if given.removeprefix("-").isdecimal() else value + 1
        standard = (
            annotation.get("String") for annotation in member if annotation.get("Term", "").endswith(".StandardName")
        )
        names[str(value)] = next(filter(None, standard), "") or member.get("Name", "")
    return names


def _describe(
    type_name: str, types: Mapping[str, ET.Element], enums: Mapping[str, Mapping[str, str]]
) -> EntityMetadata:
    elements = list(_elements(type_name, types))
    fields = {element.get("Name", ""): element.get("Type", "") for element in elements if _is(element, "Property")}
    navigation = {
        element.get("Name", ""): element.get("Type", "") for element in elements if _is(element, "NavigationProperty")
    }
    return EntityMetadata(
        fields,
        {name: _field_names(kind, types) for name, kind in navigation.items()},
        {name: _field_names(kind, types) for name, kind in fields.items() if _type_name(kind) in types},
        {name: enums[_type_name(kind)] for name, kind in fields.items() if _type_name(kind) in enums},
    )


def _field_names(kind: str, types: Mapping[str, ET.Element]) -> frozenset[str]:
    return frozenset(
        element.get("Name", "") for element in _elements(_type_name(kind), types) if _is(element, "Property")
    )


def _elements(type_name: str, types: Mapping[str, ET.Element]) -> Iterator[ET.Element]:
    unvisited = dict(types)
    while (declared := unvisited.pop(type_name, None)) is not None:
        yield from declared
        type_name = _type_name(declared.get("BaseType", ""))


def _type_name(kind: str) -> str:
    """Return the name of a type without its namespace, that of the elements for a collection."""
    return kind.removeprefix("Collection(").removesuffix(")").rpartition(".")[2]


def _is(element: ET.Element, name: str) -> bool:
    """Compare local names: the namespace differs between OData versions."""
    return element.tag.rpartition("}")[2] == name
