"""Which companies there are: their keys, and the numeric ids that stand for them."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from indexer.envelope import Decoder
from indexer.errors import ItemError
from mappings import COMPANY

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

    from indexer.source import Source

_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NUMERIC_ID = re.compile(r"[0-9]{1,64}")
_PAGE = 1000


@dataclass
class Companies:
    """The companies by key and by number. A number stands for the company that claims it first."""

    keys: set[str] = field(default_factory=set)
    numbers: dict[str, str] = field(default_factory=dict)
    # Every key that the source uses, also those of companies that are refused: none may be another's number.
    claimed: frozenset[str] = frozenset()

    def key(self, identifier: str) -> str | None:
        """Return the key of a company given by key or by numeric id, None for one that does not exist."""
        return identifier if identifier in self.keys else self.numbers.get(identifier)

    def add(self, key: str, number: str | None) -> None:
        """Make a company known."""
        self.keys.add(key)
        if number is not None:
            self.numbers.setdefault(number, key)

    async def reload(self, client: AsyncElasticsearch, alias: str) -> None:
        """Take over what is live now, for whoever holds these companies."""
        found = await from_index(client, alias)
        self.keys, self.numbers = found.keys, found.numbers

    def check(self, record: Any) -> None:
        """Raise ItemError for a company whose key or number is malformed or belongs to another company."""
        key, number = record.platform_company_id, record.numeric_id
        if not _KEY.fullmatch(key):
            raise ItemError("record.platform_company_id", "must be 1 to 64 letters, digits, underscores or hyphens")
        if number is None:
            return
        if not _NUMERIC_ID.fullmatch(number):
            raise ItemError("record.numeric_id", "must be digits only")
        owner = number if number in self.claimed else self.numbers.get(number, key)
        if owner != key:
            raise ItemError("record.numeric_id", f"{number} already stands for the company {owner}")

    def resolve(self, envelope: Any) -> str:
        """Return the key of the company that an envelope names; a deletion may name one that is gone."""
        given = envelope.platform_company_id
        if given is None:
            raise ItemError("platform_company_id", "is missing")
        key = self.key(given)
        if key is None and envelope.deleted and _KEY.fullmatch(given):
            return str(given)
        if key is None:
            raise ItemError("platform_company_id", f"{given!r} is no company of the source or the live index")
        return key


def from_source(source: Source) -> Companies:
    """Read the companies of a source: what its own build will serve of them."""
    records = [envelope.record for envelope in _newest(source).values() if not envelope.deleted]
    companies = Companies(claimed=frozenset(record.platform_company_id for record in records))
    for record in records:
        with suppress(ItemError):
            companies.check(record)
            companies.add(record.platform_company_id, record.numeric_id)
    return companies


def _newest(source: Source) -> dict[str, Any]:
    """Return the newest envelope of each company; what cannot be read is reported by the build, not here."""
    decode = Decoder(COMPANY)
    newest: dict[str, Any] = {}
    with source.open(COMPANY) as reading:
        for line in reading.sound:
            with suppress(ItemError):
                envelope = decode(line.data)
                key = envelope.record.platform_company_id
                newest[key] = max(newest.get(key, envelope), envelope, key=attrgetter("updated_at"))
    return newest


async def from_index(client: AsyncElasticsearch, alias: str) -> Companies:
    """Read the companies that are live; none where there is no companies index yet."""
    companies, after = Companies(), ""
    while True:
        page = await client.search(
            index=alias,
            ignore_unavailable=True,
            query={"bool": {"filter": [{"range": {"feed_key": {"gt": after}}}, {"term": {"deleted": False}}]}},
            sort=["feed_key"],
            size=_PAGE,
        )
        found = page["hits"]["hits"]
        for record in (hit["_source"]["record"] for hit in found):
            companies.add(record["platform_company_id"], record["numeric_id"])
        if len(found) < _PAGE:
            return companies
        after = found[-1]["sort"][0]
