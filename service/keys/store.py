"""Keys in Elasticsearch: create, list, rotate, expire and revoke, for the command line."""

import datetime as dt
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import msgspec
from elasticsearch import AsyncElasticsearch, ConflictError, NotFoundError

from cluster.control_index import ensure_index
from cluster.index_state import BlockedWrites
from mappings.visibility import DisplayLicence
from service.keys.api_key import (
    KEYS_INDEX_BODY,
    USAGE_INDEX_BODY,
    ApiKey,
    DamagedKey,
    KeyText,
    decode_key,
    generate_key,
)

Change = Callable[[dict[str, Any]], dict[str, Any]]

# The largest that Elasticsearch allows by default; a key takes less than a kilobyte.
_PAGE_SIZE = 10_000
# An edit that conflicts with a concurrent one is repeated on the new version of the document.
_MAX_EDIT_ATTEMPTS = 5


class UnknownKey(LookupError):
    """No key has this id."""


class UnchangeableKey(ValueError):
    """The key cannot be changed like this; the text says why."""


@dataclass(frozen=True)
class KeyGrant:
    """The permissions and limits of a new key, with the members of `ApiKey`."""

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
    profile: str | None = None
    display: DisplayLicence | None = None


class KeyStore:
    """The keys of one cluster."""

    def __init__(self, client: AsyncElasticsearch, index: str, usage_index: str | None = None) -> None:
        """Use `index` and the alias `usage_index`, if given; both are created with the first key."""
        self._client = client
        self._index = index
        self._usage_index = usage_index
        self._writes = BlockedWrites(client, index)

    @property
    def has_lifted_block(self) -> bool:
        """Whether a write met the block of full disks, which was lifted for it."""
        return self._writes.has_lifted

    async def create(self, grant: KeyGrant) -> KeyText:
        await ensure_index(self._client, self._index, KEYS_INDEX_BODY)
        if self._usage_index:
            aliases: dict[str, Any] = {"aliases": {self._usage_index: {}}}
            await ensure_index(self._client, f"{self._usage_index}-1", USAGE_INDEX_BODY | aliases)
        text = generate_key()
        key = ApiKey(key_id=text.key_id, digest=text.digest, created=dt.datetime.now(dt.UTC), **asdict(grant))
        document = msgspec.to_builtins(key)
        await self._index_document(key.key_id, document, op_type="create")
        return text

    async def list_intact(self) -> list[ApiKey]:
        """Return all keys that are not damaged, oldest first."""
        return [key for key in await self.list_all() if isinstance(key, ApiKey)]

    async def list_all(self) -> list[ApiKey | DamagedKey]:
        """Return all keys, oldest first, followed by the damaged ones."""
        decoded = [decode_key(hit["_id"], hit.get("_source")) async for hit in self._hits(self._index)]
        keys = {key.key_id: key for key in decoded}.values()
        intact = sorted((key for key in keys if isinstance(key, ApiKey)), key=lambda key: (key.created, key.key_id))
        return [*intact, *(key for key in keys if isinstance(key, DamagedKey))]

    async def get_key(self, key_id: str) -> ApiKey | DamagedKey:
        """Return one key; raise UnknownKey."""
        return decode_key(key_id, (await self._document(key_id))["_source"])

    async def last_used(self) -> dict[str, dt.datetime]:
        """Return when each key was last used, by id, without keys that were never used."""
        if not self._usage_index:
            return {}
        return {
            hit["_id"]: msgspec.convert(hit["_source"]["last_used"], dt.datetime)
            async for hit in self._hits(self._usage_index)
        }

    async def last_use(self, key_id: str) -> dict[str, dt.datetime]:
        """Return when a key was last used, by its id; nothing if it was never used."""
        try:
            hit = await self._client.get(index=self._usage_index or self._index, id=key_id, source_includes="last_used")
        except NotFoundError:
            return {}
        used = hit["_source"].get("last_used")
        return {key_id: msgspec.convert(used, dt.datetime)} if used else {}

    async def rotate(self, key_id: str, overlap: dt.timedelta) -> KeyText:
        """Create a successor with the same grant, let the key expire after the overlap, and return the new text.

        Raises UnknownKey, and UnchangeableKey for a key that is not usable or already has a successor.
        """
        document = (await self._document(key_id))["_source"]
        expires = dt.datetime.now(dt.UTC) + overlap
        key = _usable_key(key_id, document)
        text = await self.create(KeyGrant(**{member.name: getattr(key, member.name) for member in fields(KeyGrant)}))
        try:
            await self._edit(key_id, partial(_rotation, key_id, text.key_id, expires))
        except (UnknownKey, UnchangeableKey):
            # A concurrent change was faster. The new key has not been shown yet.
            await self._writes.run(partial(self._client.delete, index=self._index, id=text.key_id, refresh=True))
            raise
        return text

    async def revoke(self, key_id: str) -> None:
        """Revoke a key; a second call keeps the time of the first. Raises UnknownKey."""
        revoked = dt.datetime.now(dt.UTC).isoformat()
        await self._edit(key_id, lambda document: {} if document.get("revoked") else {"revoked": revoked})

    async def expire(self, key_id: str, at: dt.datetime | None) -> None:
        """Set or remove the expiry of a key; raise UnknownKey, or UnchangeableKey for a revoked or damaged one."""

        def change(document: dict[str, Any]) -> dict[str, Any]:
            if _intact_key(key_id, document).revoked:
                raise UnchangeableKey(f"The key {key_id} is revoked permanently: create another one.")
            return {"expires": at.isoformat() if at else None}

        await self._edit(key_id, change)

    async def _edit(self, key_id: str, change: Change) -> None:
        """Change members of a key's document with optimistic concurrency control."""
        for _ in range(_MAX_EDIT_ATTEMPTS):
            hit = await self._document(key_id)
            changes = change(hit["_source"])
            if not changes or await self._replace(hit, {**hit["_source"], **changes}):
                return
        raise UnchangeableKey(f"The key {key_id} is being changed by others: try again.")

    async def _replace(self, hit: dict[str, Any], document: dict[str, Any]) -> bool:
        """Replace the document of a hit; return False if it has changed since."""
        condition = {"if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"]}
        try:
            await self._index_document(hit["_id"], document, **condition)
        except ConflictError:
            return False
        return True

    async def _index_document(self, key_id: str, document: dict[str, Any], **condition: Any) -> None:
        write = partial(self._client.index, index=self._index, id=key_id, document=document, refresh=True, **condition)
        await self._writes.run(write)

    async def _document(self, key_id: str) -> dict[str, Any]:
        try:
            hit: dict[str, Any] = (await self._client.get(index=self._index, id=key_id)).body
        except NotFoundError as error:
            raise UnknownKey(f"There is no key {key_id!r}: `brokerage keys list` shows the ids.") from error
        return hit

    async def _hits(self, index: str) -> AsyncIterator[dict[str, Any]]:
        """Yield all documents by sequence number, none without an index; one that changes meanwhile comes again."""
        after: list[Any] | None = None
        try:
            while page := await self._page(index, after):
                for hit in page:
                    yield hit
                after = page[-1]["sort"]
        except NotFoundError:
            return

    async def _page(self, index: str, after: list[Any] | None) -> list[dict[str, Any]]:
        response = await self._client.search(
            index=index,
            sort=["_seq_no"],
            size=_PAGE_SIZE,
            search_after=after,
            allow_partial_search_results=False,
        )
        page: list[dict[str, Any]] = response["hits"]["hits"]
        return page


def _intact_key(key_id: str, document: dict[str, Any]) -> ApiKey:
    key = decode_key(key_id, document)
    if isinstance(key, DamagedKey):
        raise UnchangeableKey(f"The key {key_id} is damaged ({key.problem}): revoke it, and create another one.")
    return key


def _usable_key(key_id: str, document: dict[str, Any]) -> ApiKey:
    """Return a key that can be rotated; raise UnchangeableKey."""
    key = _intact_key(key_id, document)
    if key.successor:
        raise UnchangeableKey(
            f"The key {key_id} has already been rotated: rotate {key.successor}, or create another one."
        )
    if not key.is_usable(dt.datetime.now(dt.UTC)):
        raise UnchangeableKey(f"The key {key_id} is revoked or has expired: create another one.")
    return key


def _rotation(key_id: str, successor: str, expires: dt.datetime, document: dict[str, Any]) -> dict[str, Any]:
    key = _usable_key(key_id, document)
    return {"successor": successor, "expires": (min(expires, key.expires) if key.expires else expires).isoformat()}
