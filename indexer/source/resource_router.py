"""The resource of each line: the one that its envelope names, else the default of its file."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from indexer.errors import InvalidRecordError
from indexer.source.lines import RejectedLine, SourceLine
from indexer.source.recovery import recovered_values
from mappings import RESOURCES, Resource

_ALIASES = ", ".join(resource.alias for resource in RESOURCES)
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}


def resource_from_file_name(name: str) -> Resource | None:
    """Return the resource whose alias is the part of a file name before its first dot or hyphen."""
    return _BY_ALIAS.get(re.split(r"[.-]", name, maxsplit=1)[0])


class _ResourceName(msgspec.Struct, gc=False):
    resource: str | None = None


class ResourceRouter:
    """Finds the resource of each line; lines that do not name one belong to `default`."""

    def __init__(self, default: Resource | None) -> None:
        """Compile a decoder that skips all other members of a line."""
        self._default = default
        self._decode = msgspec.json.Decoder(_ResourceName).decode

    def route(self, lines: Iterable[SourceLine | RejectedLine]) -> Iterator[tuple[Resource, SourceLine] | RejectedLine]:
        """Yield each line with its resource; reject lines without one."""
        for line in lines:
            if isinstance(line, RejectedLine):
                yield line._replace(resource=line.resource or self._recovered(line.data) or self._default)
                continue
            try:
                yield self._resource(line.data), line
            except InvalidRecordError as error:
                yield RejectedLine(line, error, None)

    def _resource(self, data: bytes) -> Resource:
        try:
            name = self._decode(data).resource
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            # The decoder of the resource will fail too, with a more specific message.
            if likely := self._recovered(data) or self._default:
                return likely
            raise InvalidRecordError("resource", f"cannot be read: {error}") from None
        if name is None and self._default is not None:
            return self._default
        if name is None:
            raise InvalidRecordError("resource", f"is missing: use one of {_ALIASES}")
        if name not in _BY_ALIAS:
            raise InvalidRecordError("resource", f"is {name!r}: use one of {_ALIASES}")
        return _BY_ALIAS[name]

    def _recovered(self, data: bytes) -> Resource | None:
        """Return the only resource that a damaged line names."""
        found = {_BY_ALIAS[name] for name in recovered_values(data, "resource") if name in _BY_ALIAS}
        return found.pop() if len(found) == 1 else None
