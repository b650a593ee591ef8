"""The EDM types of properties: those of our fields, or of the Data Dictionary where it has another."""

from enum import StrEnum

from mappings.data_dictionary.model import DictionaryType
from mappings.fields import FieldKind


class EdmType(StrEnum):
    """A type of the Entity Data Model (EDM). All but the collection are nullable."""

    STRING = "Edm.String"
    INT64 = "Edm.Int64"
    DECIMAL = "Edm.Decimal"
    BOOLEAN = "Edm.Boolean"
    DATE = "Edm.Date"
    DATE_TIME = "Edm.DateTimeOffset"
    STRINGS = "Collection(Edm.String)"

    @property
    def is_collection(self) -> bool:
        """Whether an absent value is an empty list, and never null."""
        return self is EdmType.STRINGS

    @property
    def is_timestamp(self) -> bool:
        """Whether it is a point in time."""
        return self is EdmType.DATE_TIME

    @property
    def is_decimal(self) -> bool:
        """Whether it is a decimal of any scale."""
        return self is EdmType.DECIMAL


# Untyped fields become strings: a string as it is, any other value as JSON.
EDM_TYPE_BY_KIND: dict[FieldKind, EdmType] = {
    FieldKind.STRING: EdmType.STRING,
    FieldKind.UNTYPED: EdmType.STRING,
    FieldKind.DATE: EdmType.DATE,
    FieldKind.DATE_TIME: EdmType.DATE_TIME,
    FieldKind.UNIX: EdmType.DATE_TIME,
    FieldKind.INTEGER: EdmType.INT64,
    FieldKind.NUMBER: EdmType.DECIMAL,
    FieldKind.BOOLEAN: EdmType.BOOLEAN,
    FieldKind.STRINGS: EdmType.STRINGS,
    FieldKind.UNTYPED_LIST: EdmType.STRINGS,
}

EDM_TYPE_BY_DICTIONARY_TYPE: dict[DictionaryType, EdmType] = {
    "Collection": EdmType.STRINGS,
    "DateTimeOffset": EdmType.DATE_TIME,
    "Decimal": EdmType.DECIMAL,
    "Int64": EdmType.INT64,
}
