"""The plain fields of a resource, compiled from the dictionary: sources and converters of each."""

from indexer.reso.mapping.converters import ValueConverter, converter_for, limit_searchable
from indexer.reso.mapping.extractors import Extractor, build_extractor, source_field
from indexer.reso.mapping.identifiers import IdentifierFactory
from indexer.reso.mapping.mapping_context import MappingContext
from indexer.reso.mapping.source_values import UnmappableValue
from mappings import Resource
from mappings.data_dictionary.model import DictionaryEntity, ValueSource


class FirstValue:
    """A value with several sources; the first one present is used."""

    def __init__(
        self, values: tuple[ValueSource, ...], convert: ValueConverter, identifiers: IdentifierFactory
    ) -> None:
        """Compile the extractors, in order of precedence."""
        self._extractors: list[tuple[str, Extractor]] = [
            (source_field(value), build_extractor(value, identifiers)) for value in values
        ]
        self._convert = convert

    def __call__(self, context: MappingContext) -> object | None:
        """Return the converted value, None if no source has one."""
        for field, extract in self._extractors:
            if (value := self._extract(context, field, extract)) is not None:
                return value
        return None

    def _extract(self, context: MappingContext, field: str, extract: Extractor) -> object | None:
        try:
            value = extract(context, context.record)
        except UnmappableValue as error:
            context.omitted.append((field, error.reason))
            return None  # the partial value may be of another type than our field
        converted: object | None = context.convert(field, self._convert, value)
        return converted


class FieldMapper:
    """Maps all plain fields of a resource that the dictionary names."""

    def __init__(self, resource: Resource, entity: DictionaryEntity, identifiers: IdentifierFactory) -> None:
        """Compile the fields, except the identifier and those that the resource does not have."""
        fields = [field for field in resource.stored if not field.members and field.name != resource.identifier]
        sources = [(field, entity.sources_for(field.name)) for field in fields]
        copied = {
            field.name: values[0].own_fields[0] for field, values in sources if len(values) == 1 and values[0].is_copy
        }
        converters = _field_converters(resource)
        self._copies = [
            (field.name, copied[field.name], converters[field.name]) for field, _ in sources if field.name in copied
        ]
        self._others = [
            (field.name, FirstValue(values, converters[field.name], identifiers))
            for field, values in sources
            if values and field.name not in copied
        ]
        self._lists = [field.name for field in resource.stored if field.kind.is_list]

    def __call__(self, context: MappingContext) -> dict[str, object]:
        """Return the fields that a record has, by our names."""
        mapped: dict[str, object] = {name: [] for name in self._lists}
        get = context.record.get
        for name, field, convert in self._copies:
            value = get(field)
            if value is not None and (converted := context.convert(field, convert, value)) is not None:
                mapped[name] = converted
        for name, extract in self._others:
            if (value := extract(context)) is not None:
                mapped[name] = value
        return mapped


def _field_converters(resource: Resource) -> dict[str, ValueConverter]:
    """Return the converter of each plain field."""
    keywords = {
        name for search in resource.search_fields if search.mapping["type"] == "keyword" for name in search.sources
    }
    converters = {field.name: converter_for(field.kind) for field in resource.stored if not field.members}
    return {name: limit_searchable(convert) if name in keywords else convert for name, convert in converters.items()}
