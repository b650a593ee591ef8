"""The shards of the live indices, and searches that are repeated when a swap has replaced them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson

from service.errors import RebuildDue
from service.search.engine_failures import status_failure
from service.search.query import Selection
from service.search.reads.documents import Document, Documents, SeveralShards, read_documents, read_places
from service.search.search_response import shard_count
from service.search.shards.served_shards import NoLongerServed, Reach, ServedShards, served_shards
from service.search.used_fields import used_fields

GetJson = Callable[[str], Awaitable[tuple[int, Any]]]
SendSearch = Callable[[str, str, bytes], Awaitable[bytes]]
SendRead = Callable[[str, bytes], Awaitable[bytes]]

Result = TypeVar("Result")

# More swaps during one page are not plausible. In 1,000 swaps without a pause, pages of two searches needed over 3.
_MAX_ATTEMPTS = 10


class _MappedFields(NamedTuple):
    """The names of the search fields in the mapping of an index."""

    generation: str
    fields: frozenset[str]


class _UnknownMapping(NoLongerServed):
    """The documents are of an index whose mapping was not known before."""


class ShardTable:
    """The shards of each live index that has several, by alias."""

    def __init__(self, get_json: GetJson) -> None:
        """Start empty: searches ask all shards of whatever is behind an alias."""
        self._get_json = get_json
        self._served: dict[str, ServedShards] = {}
        self._mapped: dict[str, _MappedFields] = {}

    def get(self, alias: str) -> ServedShards | None:
        """Return the shards of the live index, None if it has one, or if that is not known yet."""
        return self._served.get(alias)

    def update(self, alias: str, indices: Mapping[str, Any]) -> None:
        """Take over what Elasticsearch says about the index behind an alias; raise ValueError if it is not valid."""
        self._mapped.pop(alias, None)
        if len(indices) == 1:
            [(index, facts)] = indices.items()
            self._mapped[alias] = _MappedFields(index, frozenset(facts["mappings"].get("properties", ())))
        served = served_shards(alias, indices)
        if served is None:
            self._served.pop(alias, None)
        elif served != self._served.get(alias):
            self._served[alias] = served

    async def search(self, alias: str, body: Mapping[str, Any], reach: Reach, send: SendSearch) -> bytes:
        """Return the response of a search that `send` sends: to a path, with options and a body."""

        async def attempt(served: ServedShards | None) -> bytes:
            if served is None:
                return await self.checked(alias, await send(f"/{alias}", "", orjson.dumps(body)))
            return await send(f"/{served.target}", served.routing(reach), orjson.dumps(served.visible(body, reach)))

        return await (self.repeat(alias, attempt) if reach.only is None else attempt(reach.only.served))

    async def read(
        self, alias: str, identifiers: Sequence[str], selection: Selection, reach: Reach, send: SendRead
    ) -> list[Document]:
        """Return the documents with some identifiers that are in a selection; `send` reads all copies."""

        async def attempt(served: ServedShards | None) -> list[Document]:
            mapped, places = self._mapped.get(alias), read_places(identifiers, served, reach)
            generation, found = await self._read(alias, served, places, send)
            _require_mapped(mapped, generation, selection)
            shown = [each for each in found if served is None or served.shows(each.fields, reach)]
            return [each for each in shown if selection.accepts(each.fields)]

        return await self.repeat(alias, attempt)

    async def _read(
        self, alias: str, served: ServedShards | None, places: list[dict[str, str]], send: SendRead
    ) -> Documents:
        """Return all documents in some places; raise NoLongerServed if they are not of the generation of the shards."""
        response = await send(f"/{alias if served is None else served.target}", orjson.dumps({"docs": places}))
        try:
            documents = read_documents(response, len(places))
        except SeveralShards:
            await self._read_again(alias, served)
            raise
        if served is not None and served.index != documents.generation:
            raise NoLongerServed(f"{served.index} has been replaced by {documents.generation}.")
        return documents

    async def repeat(self, alias: str, attempt: Callable[[ServedShards | None], Awaitable[Result]]) -> Result:
        """Return what `attempt` returns for the present shards; again if it raises NoLongerServed."""
        for _ in range(_MAX_ATTEMPTS - 1):
            served = self.get(alias)
            try:
                return await attempt(served)
            except NoLongerServed as error:
                if served is None and self.get(alias) is None and not isinstance(error, _UnknownMapping):
                    raise
                await self._read_again(alias, served)
        return await attempt(self.get(alias))

    async def checked(self, alias: str, response: bytes) -> bytes:
        """Return the response of an index that was taken to have one shard; raise NoLongerServed if it has several."""
        if shard_count(response) > 1:
            await self._read_again(alias, None)
            if self.get(alias) is not None:
                raise NoLongerServed("The index has been replaced by one of several shards.")
        return response

    async def _read_again(self, alias: str, outdated: ServedShards | None) -> None:
        if self.get(alias) is not outdated:
            return  # another request has read them
        status, indices = await self._get_json(f"/{alias}?flat_settings=true")
        self.update(alias, indices if status == 200 else {})


def _require_mapped(known: _MappedFields | None, generation: str, selection: Selection) -> None:
    """Raise RebuildDue if the index of some documents lacks search fields, whose absence would then say nothing.

    `known` are the fields that were known before the documents were read.
    """
    if known is None or known.generation != generation:
        raise _UnknownMapping(f"The mapping of {generation} is not known.")
    if lacking := {*used_fields(selection.conditions)} - known.fields:
        raise RebuildDue(selection.resource.alias, f"{generation} lacks the fields {', '.join(sorted(lacking))}.")


def gone(response: bytes | bytearray) -> NoLongerServed:
    """Return the error for a search of an index that does not exist."""
    failure = status_failure(404, response, None)
    return NoLongerServed(getattr(failure, "reason", ""))
