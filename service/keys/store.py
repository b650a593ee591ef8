"""Keys in Elasticsearch, as the command line creates, lists and revokes them."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from elasticsearch import NotFoundError

from cluster.control import ensure_index
from service.keys.record import KEYS_BODY, ApiKey
from service.keys.text import KeyText, mint

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

_LISTED_AT_ONCE = 1000


class UnknownKey(LookupError):
    """No key has this id."""


@dataclass(frozen=True)
class Grant:
    """What a new key may do."""

    name: str
    companies: tuple[str, ...] = ()
    parent_companies: tuple[str, ...] = ()
    all_companies: bool = False
    rate: int | None = 300
    expires: dt.datetime | None = None


class KeyStore:
    """The keys of one cluster."""

    def __init__(self, client: AsyncElasticsearch, index: str) -> None:
        """Use `index`, which is created with the first key."""
        self._client = client
        self._index = index

    async def create(self, grant: Grant) -> KeyText:
        """Store a new key and return its text, which exists nowhere else."""
        await ensure_index(self._client, self._index, KEYS_BODY)
        text = mint()
        key = ApiKey(key_id=text.key_id, digest=text.digest, created=dt.datetime.now(dt.UTC), **asdict(grant))
        document = msgspec.to_builtins(key)
        await self._client.index(index=self._index, id=key.key_id, document=document, op_type="create", refresh=True)
        return text

    async def everything(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        found: list[ApiKey] = []
        after: list[Any] | None = None
        try:
            while page := await self._page(after):
                found += [msgspec.convert(hit["_source"], ApiKey) for hit in page]
                after = page[-1]["sort"]
        except NotFoundError:
            return []
        return found

    async def _page(self, after: list[Any] | None) -> list[dict[str, Any]]:
        answer = await self._client.search(
            index=self._index,
            sort=["created", "key_id"],
            size=_LISTED_AT_ONCE,
            search_after=after,
            allow_partial_search_results=False,
        )
        page: list[dict[str, Any]] = answer["hits"]["hits"]
        return page

    async def revoke(self, key_id: str) -> None:
        """Make a key unusable from now on; revoking twice keeps the first time."""
        try:
            found = await self._client.get(index=self._index, id=key_id)
        except NotFoundError as error:
            raise UnknownKey(f"There is no key {key_id!r}: `brokerage keys list` shows the ids.") from error
        if found["_source"].get("revoked") is None:
            document = {**found["_source"], "revoked": dt.datetime.now(dt.UTC).isoformat()}
            await self._client.index(
                index=self._index,
                id=key_id,
                document=document,
                if_seq_no=found["_seq_no"],
                if_primary_term=found["_primary_term"],
                refresh=True,
            )
