"""Keys in Elasticsearch, as the command line creates, lists and changes them."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from elasticsearch import ConflictError, NotFoundError

from cluster.control import ensure_index
from service.keys.record import KEYS_BODY, USAGE_BODY, ApiKey, DamagedKey, read_key
from service.keys.text import KeyText, mint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from elasticsearch import AsyncElasticsearch

    Change = Callable[[dict[str, Any]], dict[str, Any]]

_LISTED_AT_ONCE = 1000
# An edit that another one has overtaken is made again on what that has left.
_ATTEMPTS = 5


class UnknownKey(LookupError):
    """No key has this id."""


class UnchangeableKey(ValueError):
    """The key is not one to change in this way; the text says why."""


@dataclass(frozen=True)
class Grant:
    """What a new key may do; its members are those of `ApiKey`."""

    name: str
    companies: tuple[str, ...] = ()
    parent_companies: tuple[str, ...] = ()
    all_companies: bool = False
    rate: int | None = 300
    expires: dt.datetime | None = None
    burst: int | None = None
    tier: str | None = None
    fields: tuple[str, ...] | None = None
    note: str = ""


class KeyStore:
    """The keys of one cluster."""

    def __init__(self, client: AsyncElasticsearch, index: str, usage_index: str | None = None) -> None:
        """Use `index` and the alias `usage_index`, where one is given; they are created with the first key."""
        self._client = client
        self._index = index
        self._usage_index = usage_index

    async def create(self, grant: Grant) -> KeyText:
        """Store a new key and return its text, which exists nowhere else."""
        await ensure_index(self._client, self._index, KEYS_BODY)
        if self._usage_index:
            aliases: dict[str, Any] = {"aliases": {self._usage_index: {}}}
            await ensure_index(self._client, f"{self._usage_index}-1", USAGE_BODY | aliases)
        text = mint()
        key = ApiKey(key_id=text.key_id, digest=text.digest, created=dt.datetime.now(dt.UTC), **asdict(grant))
        document = msgspec.to_builtins(key)
        await self._client.index(index=self._index, id=key.key_id, document=document, op_type="create", refresh=True)
        return text

    async def everything(self) -> list[ApiKey]:
        """Return every key that is not damaged, oldest first."""
        return [key for key in await self.stored() if isinstance(key, ApiKey)]

    async def stored(self) -> list[ApiKey | DamagedKey]:
        """Return every key, oldest first, and behind them those that are damaged."""
        read = [read_key(hit["_id"], hit.get("_source")) async for hit in self._hits(self._index)]
        found = {key.key_id: key for key in read}.values()
        sound = sorted((key for key in found if isinstance(key, ApiKey)), key=lambda key: (key.created, key.key_id))
        return [*sound, *(key for key in found if isinstance(key, DamagedKey))]

    async def one(self, key_id: str) -> ApiKey | DamagedKey:
        """Return one key; raise UnknownKey."""
        return read_key(key_id, (await self._document(key_id))["_source"])

    async def last_used(self) -> dict[str, dt.datetime]:
        """Return when each key was last used, by its id; a key that was never used is not in it."""
        if not self._usage_index:
            return {}
        return {
            hit["_id"]: msgspec.convert(hit["_source"]["last_used"], dt.datetime)
            async for hit in self._hits(self._usage_index)
        }

    async def rotate(self, key_id: str, overlap: dt.timedelta) -> KeyText:
        """Store a second key with the same grant, and let the first expire after the overlap; return the second's text.

        Raises UnknownKey, and UnchangeableKey for a key that is not in use or has a successor already.
        """
        document = (await self._document(key_id))["_source"]
        ends = dt.datetime.now(dt.UTC) + overlap
        key = _usable(key_id, document)
        text = await self.create(Grant(**{member.name: getattr(key, member.name) for member in fields(Grant)}))
        try:
            await self._edit(key_id, partial(_succeeded, key_id, text.key_id, ends))
        except (UnknownKey, UnchangeableKey):
            # Somebody else was faster: nobody has seen the second key.
            await self._client.delete(index=self._index, id=text.key_id, refresh=True)
            raise
        return text

    async def revoke(self, key_id: str) -> None:
        """Make a key unusable from now on; revoking twice keeps the first time. Raises UnknownKey."""
        revoked = dt.datetime.now(dt.UTC).isoformat()
        await self._edit(key_id, lambda document: {} if document.get("revoked") else {"revoked": revoked})

    async def expire(self, key_id: str, at: dt.datetime | None) -> None:
        """Let a key expire at a time, or never; raise UnknownKey, or UnchangeableKey for a revoked or damaged one."""

        def change(document: dict[str, Any]) -> dict[str, Any]:
            if _sound(key_id, document).revoked:
                raise UnchangeableKey(f"The key {key_id} is revoked, for good: create another one.")
            return {"expires": at.isoformat() if at else None}

        await self._edit(key_id, change)

    async def _edit(self, key_id: str, change: Change) -> None:
        """Change members of a key's document, and nothing that somebody else changes meanwhile."""
        for _ in range(_ATTEMPTS):
            found = await self._document(key_id)
            changes = change(found["_source"])
            if not changes or await self._replaced(found, {**found["_source"], **changes}):
                return
        raise UnchangeableKey(f"Others change the key {key_id} at this moment: try again.")

    async def _replaced(self, found: dict[str, Any], document: dict[str, Any]) -> bool:
        """Write a document in place of the one found; False where that is no longer there."""
        condition = {"if_seq_no": found["_seq_no"], "if_primary_term": found["_primary_term"]}
        try:
            await self._client.index(index=self._index, id=found["_id"], document=document, refresh=True, **condition)
        except ConflictError:
            return False
        return True

    async def _document(self, key_id: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = (await self._client.get(index=self._index, id=key_id)).body
        except NotFoundError as error:
            raise UnknownKey(f"There is no key {key_id!r}: `brokerage keys list` shows the ids.") from error
        return found

    async def _hits(self, index: str) -> AsyncIterator[dict[str, Any]]:
        """Yield every document in the order of writing, none where there is no index; one may come twice, newer."""
        after: list[Any] | None = None
        try:
            while page := await self._page(index, after):
                for hit in page:
                    yield hit
                after = page[-1]["sort"]
        except NotFoundError:
            return

    async def _page(self, index: str, after: list[Any] | None) -> list[dict[str, Any]]:
        answer = await self._client.search(
            index=index,
            sort=["_seq_no"],
            size=_LISTED_AT_ONCE,
            search_after=after,
            allow_partial_search_results=False,
        )
        page: list[dict[str, Any]] = answer["hits"]["hits"]
        return page


def _sound(key_id: str, document: dict[str, Any]) -> ApiKey:
    key = read_key(key_id, document)
    if isinstance(key, DamagedKey):
        raise UnchangeableKey(f"The key {key_id} is damaged ({key.problem}): revoke it, and create another one.")
    return key


def _usable(key_id: str, document: dict[str, Any]) -> ApiKey:
    """Return the key of a document if it can be used and replaced, else raise UnchangeableKey."""
    key = _sound(key_id, document)
    if key.successor:
        raise UnchangeableKey(f"The key {key_id} was rotated already: rotate {key.successor}, or create another one.")
    if not key.usable(dt.datetime.now(dt.UTC)):
        raise UnchangeableKey(f"The key {key_id} is revoked or has expired: create another one.")
    return key


def _succeeded(key_id: str, successor: str, ends: dt.datetime, document: dict[str, Any]) -> dict[str, Any]:
    key = _usable(key_id, document)
    return {"successor": successor, "expires": (min(ends, key.expires) if key.expires else ends).isoformat()}
