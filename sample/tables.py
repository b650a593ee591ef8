"""The package's data files, read into types, and the empty record of each resource."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def content(file: str) -> bytes:
    """Return the bytes of one data file of the package."""
    return resources.files("sample").joinpath("data", file).read_bytes()


def table(name: str, shape: type[T]) -> T:
    """Return the JSON data file `name` in the given shape."""
    return msgspec.json.decode(content(f"{name}.json"), type=shape)


def blank(resource: str) -> dict[str, Any]:
    """Return a record of a resource that has every field in the contract's order and no values: null, or [] for lists.

    Its lists are shared: assign new ones, never append.
    """
    return _blanks()[resource].copy()


@cache
def _blanks() -> dict[str, dict[str, Any]]:
    return table("blank_records", dict[str, dict[str, Any]])
