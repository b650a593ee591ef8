"""The package's data files, read into types, and the empty record of each resource."""

from functools import cache
from importlib import resources
from typing import Any, TypeVar

import msgspec

from mappings import RESOURCES

T = TypeVar("T")


def read_data_file(file: str) -> bytes:
    """Return the bytes of one data file of the package."""
    return resources.files("sample").joinpath("data", file).read_bytes()


def load_table(name: str, shape: type[T]) -> T:
    """Return the JSON data file `name` in the given shape."""
    return msgspec.json.decode(read_data_file(f"{name}.json"), type=shape)


def blank_record(name: str) -> dict[str, Any]:
    """Return a record of the resource of a name, with every field in order and no values: null, or [] for lists.

    Its lists are shared: assign new ones, never append.
    """
    return _blank_records()[name].copy()


@cache
def _blank_records() -> dict[str, dict[str, Any]]:
    return {resource.name: {field.name: field.empty_value for field in resource.stored} for resource in RESOURCES}
