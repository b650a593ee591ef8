"""Whose a line is: the resource that its envelope names, or that its file is of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from indexer.errors import ItemError
from indexer.source import Fault
from mappings import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from indexer.source import Line
    from mappings import Resource

_ALIASES = ", ".join(resource.alias for resource in RESOURCES)
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}


def resource_of_file(name: str) -> Resource | None:
    """Return the resource whose alias a file's name begins with, up to the first dot or hyphen."""
    return _BY_ALIAS.get(re.split(r"[.-]", name, maxsplit=1)[0])


class _Named(msgspec.Struct, gc=False):
    resource: str | None = None


class Address:
    """Tells the resource of each line; `default` is that of lines which name none."""

    def __init__(self, default: Resource | None) -> None:
        """Compile the decoder, which skips over everything else in a line."""
        self._default = default
        self._decode = msgspec.json.Decoder(_Named).decode

    def each(self, lines: Iterable[Line | Fault]) -> Iterator[tuple[Resource, Line] | Fault]:
        """Yield each line with its resource, or as a fault without one."""
        for line in lines:
            if isinstance(line, Fault):
                yield line
                continue
            try:
                yield self._resource(line.data), line
            except ItemError as error:
                yield Fault(line, error, None)

    def _resource(self, data: bytes) -> Resource:
        try:
            named = self._decode(data).resource
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if self._default is not None:  # its decoder finds the same fault and words it with more knowledge
                return self._default
            raise ItemError("resource", f"cannot be read: {error}") from None
        if named is None and self._default is not None:
            return self._default
        if named is None:
            raise ItemError("resource", f"is missing: give one of {_ALIASES}")
        if named not in _BY_ALIAS:
            raise ItemError("resource", f"is {named!r}: give one of {_ALIASES}")
        return _BY_ALIAS[named]
