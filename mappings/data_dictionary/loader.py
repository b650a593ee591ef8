"""Loads the RESO Data Dictionary mapping (`reso.toml`) with the overrides of an MLS."""

import tomllib
from importlib.resources import files
from typing import Any

import msgspec

from mappings.data_dictionary.checks import check_dictionary
from mappings.data_dictionary.model import DataDictionary, DictionaryEntity
from mappings.data_dictionary.overrides import apply_overrides, conversion_errors


def load_dictionary(*overrides: bytes) -> DataDictionary:
    """Return `reso.toml` with the overrides of TOML texts, in turn; raise ValueError with the invalid entry."""
    merged = _parse_toml(files("mappings").joinpath("reso.toml").read_bytes())
    private = frozenset(merged.pop("private"))
    for override in overrides:
        merged = apply_overrides(merged, _parse_toml(override))
    dictionary = DataDictionary({name: _convert_entity(name, table) for name, table in merged.items()}, private)
    check_dictionary(dictionary)
    return dictionary


def _parse_toml(toml: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(toml.decode())
    except ValueError as error:
        raise ValueError(f"is not valid TOML: {error}") from None


def _convert_entity(name: str, table: dict[str, Any]) -> DictionaryEntity:
    try:
        entity = msgspec.convert(table, DictionaryEntity)
    except msgspec.ValidationError as error:
        raise ValueError(next(conversion_errors(name, table, DictionaryEntity), f"{name}: {error}")) from None
    looked_up = {
        value.of: value.within for value in entity.value_sources if value.of is not None and value.within is not None
    }
    return msgspec.structs.replace(entity, refers_to={**looked_up, **entity.refers_to})
